#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weir::sim {

// Rare conditions that a long run must have met: otherwise it proves less than it seems to.
#define WEIR_SIM_PROBES(X)                                                            \
  X(kCheckpointCompleted, "a checkpoint completed")                                   \
  X(kCheckpointAborted, "a checkpoint was aborted")                                   \
  X(kCompletedNoticeLate, "a completion notice came after a later one")               \
  X(kClaimUnknown, "a claim had an outcome that its claimant could not know")         \
  X(kClaimLate, "a claim was carried out after its claimant was gone")                \
  X(kClaimOccupied, "a claim found somebody else's entry")                            \
  X(kCoordinatorPausedInClaim, "a coordinator was paused between last ack and claim") \
  X(kDeposedWoke, "a deposed coordinator woke up and acted")                          \
  X(kTakenOver, "a coordinator took over a running job")                              \
  X(kRestored, "a generation restored a completed checkpoint")                        \
  X(kRestoredFresh, "a generation started afresh after a failure")                    \
  X(kRestoredTwice, "the same checkpoint was restored twice")                         \
  X(kSettleFailed, "settling sealed rows failed and was repeated")                    \
  X(kZombieWorker, "a worker declared dead went on")                                  \
  X(kZombieSealed, "a worker of an older generation sealed rows")                     \
  X(kChannelBroke, "a data connection broke")                                         \
  X(kBlockedForCredit, "a task was blocked for want of credit")                       \
  X(kAlignmentBlocked, "an early channel was blocked in an alignment")                \
  X(kRpcDuplicate, "a request was delivered twice")                                   \
  X(kRpcLostReply, "a request was carried out and its answer lost")                   \
  X(kPowerLossUnsynced, "a power loss took bytes or names that were not synced")      \
  X(kDiskFull, "a write found the disk full")                                         \
  X(kDiskReadOnly, "a change found the disk read-only")                               \
  X(kDiskHanging, "a request hung on the disk")                                       \
  X(kLateFileOperation, "a file operation was carried out after its asker was gone")  \
  X(kLateAck, "an ack came for a checkpoint that had ended")                          \
  X(kRefusedWorker, "a worker's registration was refused")                            \
  X(kClockJump, "a wall clock jumped")                                                \
  X(kAllDead, "every process was dead at one time")                                   \
  X(kKafkaDisturbed, "a Kafka producer was disturbed")                                \
  X(kKafkaFenced, "a Kafka producer found itself fenced")                             \
  X(kKafkaTimedOut, "the broker gave a transaction up")                               \
  X(kKafkaLateEnd, "the end of a transaction came when nobody waited for it")         \
  X(kKafkaLateInit, "a producer's initialisation came when nobody waited for it")     \
  X(kFinished, "a bounded job finished")

enum class Probe {
#define WEIR_SIM_PROBE(name, text) name,
  WEIR_SIM_PROBES(WEIR_SIM_PROBE)
#undef WEIR_SIM_PROBE
      kCount
};

inline constexpr int kProbes = static_cast<int>(Probe::kCount);
std::string_view ToString(Probe probe);

// How often each was hit. Thread: confined to the simulation.
class Probes {
 public:
  void Hit(Probe probe, int64_t times = 1) { counts_[static_cast<int>(probe)] += times; }
  int64_t count(Probe probe) const { return counts_[static_cast<int>(probe)]; }
  void Add(const Probes& other) {
    for (int i = 0; i < kProbes; ++i) counts_[i] += other.counts_[i];
  }

 private:
  std::array<int64_t, kProbes> counts_{};
};

}  // namespace weir::sim
