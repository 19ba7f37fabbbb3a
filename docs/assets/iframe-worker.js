// Search runs in a Worker, which browsers refuse to pages that are opened as files. There, a hidden frame does its work.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inside.importScripts = (...urls) =>
      urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
    this.ready = this.load(url);
  }
  load(url) {
    const script = this.inside.document.createElement("script");
    script.src = url;
    return new Promise((done, failed) => {
      script.onload = done;
      script.onerror = failed;
      this.inside.document.body.append(script);
    });
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
}
if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
