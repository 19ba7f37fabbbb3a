"""Your own images: a learner that goes on without the earlier ones.

Run it in a folder with two tables, whose rows look like ``street.jpg,car;person``, and their pictures.
"""

from rebll_avalanche import Learner

learner = Learner()  # a frozen backbone from PyPI and the closed form
lesson = learner.learn("march.csv", images="photos/march")
print(lesson)  # images, new classes, quality per class
learner.learn("april.csv", images="photos/april")  # march's photos may be gone by now
print(learner.predict("street.jpg"))  # {"car": 0.93, "person": 0.71}
learner.save("city.rebll")  # one file; copy it anywhere
print(Learner.load("city.rebll").predict("photos/april"))
