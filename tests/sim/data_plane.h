#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/network.h"
#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/world.h"
#include "worker/network/channel_credit.h"
#include "worker/network/data_plane.h"

namespace weir::sim {

class SimDataPlane;

// The data connections between the workers of a world: one for each generation and ordered pair of
// workers, FIFO, with the credit rules of the real ones; elements take time, stall while the pair
// is partitioned, and are lost when the connection breaks. Thread: confined to the simulation.
class Fabric {
 public:
  Fabric(Scheduler& scheduler, const World& world, Network& network, Probes& probes)
      : scheduler_(scheduler), world_(world), network_(network), probes_(probes) {}

  // The plane of a process, listening at `address`.
  std::unique_ptr<SimDataPlane> Open(Process& process, const std::string& address);
  // The process was killed: its connections break.
  void OnDeath(Process& process);
  // One of the standing connections, chosen by chance, breaks; false: there is none.
  bool BreakOne();

 private:
  friend class SimDataPlane;
  struct OutHalf;
  struct InHalf;

  int64_t Delay();
  // Brings some of what waits at the sender to the receiver.
  void Pump(const std::shared_ptr<OutHalf>& out);
  void Break(const std::shared_ptr<OutHalf>& out, const std::string& why);

  Scheduler& scheduler_;
  const World& world_;
  Network& network_;
  Probes& probes_;
  std::map<std::string, SimDataPlane*> planes_;       // by address
  std::vector<std::shared_ptr<OutHalf>> connections_;  // standing
};

// One worker's end of all its connections.
class SimDataPlane : public DataPlane {
 public:
  SimDataPlane(Fabric& fabric, Process& process, std::string address);
  ~SimDataPlane() override;

  Channels StartGeneration(const Generation& generation, std::function<void()> connected,
                           std::function<void(Status)> broken) override;
  void EndGeneration(const JobId& job, weir::Generation generation,
                     std::function<void()> ended) override;
  std::string address() const override { return address_; }

 private:
  friend class Fabric;
  using Key = std::pair<JobId, weir::Generation>;
  class Sender;
  class Receiver;
  struct Active {
    std::map<WorkerName, std::shared_ptr<Fabric::OutHalf>> out;
    std::map<WorkerName, std::shared_ptr<Fabric::InHalf>> in;
    WorkerName self;
    size_t down = 0;  // connections that do not stand yet
    bool is_broken = false;
    std::function<void()> connected;
    std::function<void(Status)> broken;
  };

  void Dial(const std::shared_ptr<Fabric::OutHalf>& out, const std::string& address);
  void CountUp(const Key& key);
  void Broken(const Key& key, const Status& status);

  Fabric& fabric_;
  Process& process_;
  const std::string address_;
  std::map<Key, Active> active_;
  std::set<Key> ended_;
};

}  // namespace weir::sim
