// Goal: where subtasks go. Method: small plans and workers, placements worked out by hand.

#include "coordinator/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/concat.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ExecutionPlan Plan(std::vector<int> parallelisms) {
  ExecutionPlan plan;
  for (int parallelism : parallelisms) {
    plan.tasks.emplace_back();
    plan.tasks.back().parallelism = parallelism;
    plan.parallelism_max = std::max(plan.parallelism_max, parallelism);
  }
  return plan;
}

std::vector<std::string> Names(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const WorkerName& worker : schedule.slots) names.push_back(worker.value());
  return names;
}

FreeSlots Free(const std::string& worker, int slots) { return {WorkerName(worker), slots}; }

TEST(Scheduler, SpreadsSlotsEvenlyByMostFreeThenByName) {
  EXPECT_THAT(Names(ScheduleTasks(Plan({4}), {Free("b", 2), Free("a", 2)})),
              ElementsAre("a", "b", "a", "b"));
  EXPECT_THAT(Names(ScheduleTasks(Plan({5}), {Free("a", 1), Free("b", 4), Free("c", 2)})),
              ElementsAre("b", "b", "b", "c", "a"));
}

TEST(Scheduler, PutsSubtaskIOfEveryTaskIntoSlotI) {
  const Schedule schedule = ScheduleTasks(Plan({1, 3, 2}), {Free("w1", 2), Free("w2", 2)});
  ASSERT_TRUE(schedule.complete());
  EXPECT_THAT(Names(schedule), ElementsAre("w1", "w2", "w1"));
  std::vector<std::string> placed;
  for (const TaskAssignment& assignment : schedule.assignments) {
    placed.push_back(Concat(assignment.task, ".", assignment.subtask, " ", assignment.worker));
  }
  EXPECT_THAT(placed, ElementsAre("0.0 w1", "1.0 w1", "1.1 w2", "1.2 w1", "2.0 w1", "2.1 w2"));
}

TEST(Scheduler, SaysHowManySlotsAreMissing) {
  const Schedule schedule = ScheduleTasks(Plan({4}), {Free("a", 2), Free("b", 1), Free("c", 0)});
  EXPECT_FALSE(schedule.complete());
  EXPECT_EQ(schedule.waiting_for, "4 slots, 3 free");
  EXPECT_THAT(schedule.assignments, IsEmpty());
  EXPECT_THAT(schedule.slots, IsEmpty());
  EXPECT_EQ(ScheduleTasks(Plan({1}), {}).waiting_for, "1 slot, 0 free");
}

TEST(Scheduler, DoesNotDependOnTheOrderOfTheWorkers) {
  std::vector<FreeSlots> free = {Free("a", 3), Free("b", 1), Free("c", 3), Free("d", 2)};
  const std::vector<std::string> expected = Names(ScheduleTasks(Plan({6}), free));
  EXPECT_THAT(expected, ElementsAre("a", "c", "a", "c", "d", "a"));
  while (std::next_permutation(free.begin(), free.end(),
                               [](const auto& x, const auto& y) { return x.worker < y.worker; })) {
    EXPECT_EQ(Names(ScheduleTasks(Plan({6}), free)), expected);
  }
}

}  // namespace
}  // namespace weir
