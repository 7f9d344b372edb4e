"""The named kill points of the daemons (docs/checkpoint_protocol.md, crash table), and the arrival
at each that lies in the midst of a job of four subtasks: at its third to sixth checkpoint."""

COORDINATOR_POINTS = {
    "coordinator.before_manifest": 4,
    "coordinator.after_manifest": 4,
    "coordinator.after_claim_sent": 4,
    "coordinator.before_claim_answer": 4,
    "coordinator.before_notice": 4,
}
WORKER_POINTS = {
    "task.during_alignment": 22,
    "snapshot.while_writing": 14,
    "sink.before_prepare_sync": 60,
    "sink.after_prepare": 7,
    "task.after_prepare": 7,
    "sink.before_rename": 7,
    "sink.between_renames": 20,
    "sink.before_sync": 7,
}
# Points in a restart: another process is killed first.
RESTORE_POINTS = {
    "task.while_restoring": 5,  # the four tasks of two slots start once before
    "coordinator.during_restore": 2,
}
# Of a worker with a kafka.sink, in a job of the Kafka tests.
KAFKA_POINTS = {
    "kafka.before_init": 2,
    "kafka.after_init": 2,
    "kafka.after_begin": 5,
    "kafka.half_produced": 5,
    "kafka.before_commit": 5,
    "kafka.after_commit": 5,
    "kafka.before_notice": 5,
}
