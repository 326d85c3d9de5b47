"""Schedules with the interface of the package checkpoint_schedules, which need not be installed.

Its classes have their names and arguments here. BudgetCheckpointSchedule keeps to a number of bytes, and
PlannedCheckpointSchedule is any schedule of ckptc.plan.
"""
from .basic_schedules import NoneCheckpointSchedule, SingleDiskStorageSchedule, SingleMemoryStorageSchedule
from .hrevolve import DiskRevolve, HRevolve, PeriodicDiskRevolve, Revolve
from .mixed import MixedCheckpointSchedule
from .multistage import MultistageCheckpointSchedule
from .planned import BudgetCheckpointSchedule, PlannedCheckpointSchedule
from .schedule import (CheckpointAction, CheckpointSchedule, Copy, EndForward, EndReverse, Forward, Move, Reverse,
                       StorageType)
from .twolevel_binomial import TwoLevelCheckpointSchedule

__all__ = ["BudgetCheckpointSchedule", "CheckpointAction", "CheckpointSchedule", "Copy", "DiskRevolve", "EndForward",
           "EndReverse", "Forward", "HRevolve", "MixedCheckpointSchedule", "Move", "MultistageCheckpointSchedule",
           "NoneCheckpointSchedule", "PeriodicDiskRevolve", "PlannedCheckpointSchedule", "Reverse", "Revolve",
           "SingleDiskStorageSchedule", "SingleMemoryStorageSchedule", "StorageType", "TwoLevelCheckpointSchedule"]
