"""Pipeline schedules as data, their simulation, and the closed forms that stand for them.

`actions` names what a rank does, the schedules' modules give each rank's order, `simulate` gives
the time of every action, and `closed_forms` prices N layouts at once.
"""
