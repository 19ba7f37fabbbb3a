// The API's own description, drawn without anything from another host.
import { byId, element } from "./dom.js";

const description = await (await fetch("api/openapi.json")).json();

function nameOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(nameOf).join(" or ");
  if (schema.type === "array") return `list of ${nameOf(schema.items)}`;
  return schema.type ?? "";
}

function fields(schema) {
  const found = schema?.$ref ? description.components.schemas[schema.$ref.split("/").pop()] : schema;
  return Object.entries(found?.properties ?? {}).map(([name, each]) =>
    element("li", {}, element("code", {}, name), ` ${nameOf(each)}${found.required?.includes(name) ? "" : ", optional"}${each.description ? `: ${each.description}` : ""}`));
}

const drawn = Object.entries(description.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => {
  const [kind, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const parameters = (operation.parameters ?? []).map((each) =>
    element("li", {}, element("code", {}, each.name), ` ${nameOf(each.schema)}, in the ${each.in}${each.description ? `: ${each.description}` : ""}`));
  const [, good] = Object.entries(operation.responses).find(([status]) => status.startsWith("2"));
  const [type, answer] = Object.entries(good.content ?? {})[0] ?? [];
  const given = [...parameters, ...fields(body?.schema)];
  return element("section", {}, element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)),
    element("p", {}, operation.summary ?? ""),
    ...(given.length ? [element("p", { className: "hint" }, `Takes${kind ? ` ${kind}` : ""}:`), element("ul", {}, ...given)] : []),
    element("p", { className: "hint" }, `Gives ${nameOf(answer?.schema) || type}`),
    element("ul", {}, ...fields(answer?.schema?.items ?? answer?.schema)));
}));
byId("operations").append(...drawn);
