// Two workers' data planes in one process: elements arrive in order and whole, barriers in their
// place, credit bounds what waits, and a large row does not hold up its neighbours.
#include "worker/network/tcp_data_plane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <thread>

#include "tests/unit/worker/network/plane_fixtures.h"

namespace weir {
namespace {

using network_test::NumberOf;
using network_test::PlaneTest;
using network_test::ReceiveFrom;
using network_test::Row;
using network_test::TextOf;
using network_test::WaitPop;
using network_test::WorkerRun;

using TcpDataPlaneTest = PlaneTest;

constexpr ChannelId kChannel{1, 0, 0};

TEST_F(TcpDataPlaneTest, KeepsOrderAndBarriersInPlaceAndHoldsTheSenderBack) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  constexpr int64_t kRows = 20'000;
  // Number, offset and the text of at most 48 bytes.
  constexpr int64_t kRowBytesMax = 8 + 4 + 48;
  for (const int64_t window_bytes : {int64_t{1}, int64_t{4000}}) {
    const uint64_t generation = static_cast<uint64_t>(window_bytes);
    Gate credit;
    Gate arrival;
    WorkerRun sending(plane_1, "w1", generation, {},
                      {SendTo(*plane_2, "w2", kChannel, window_bytes)});
    WorkerRun receiving(plane_2, "w2", generation, {ReceiveFrom("w1", kChannel, window_bytes)}, {});
    sending.sender().SetCreditWaker([&] { credit.Notify(); });
    receiving.receiver().SetArrivalWaker([&] { arrival.Notify(); });

    std::thread sender([&] {
      for (int64_t i = 0; i < kRows; ++i) {
        while (!sending.sender().HasCredit()) credit.Wait();
        sending.sender().Push(Row(i, std::string(static_cast<size_t>(i % 49), 'x')));
        if (i % 100 == 99) {
          sending.sender().Push(Barrier{CheckpointId(static_cast<uint64_t>(i / 100 + 1)), i});
        }
      }
      sending.sender().Push(EndOfInput{});
      sending.sender().Push(Barrier{CheckpointId(1'000'000)});
    });
    int64_t queued_bytes_max = 0;
    int64_t barriers = 0;
    bool in_order = true;
    for (int64_t i = 0; i < kRows; ++i) {
      queued_bytes_max = std::max(queued_bytes_max, receiving.receiver().queued_bytes());
      const StreamElement row = WaitPop(receiving.receiver(), arrival);
      in_order &= NumberOf(row) == i && TextOf(row).size() == static_cast<size_t>(i % 49);
      if (i % 100 == 99) {
        const StreamElement barrier = WaitPop(receiving.receiver(), arrival);
        in_order &= std::get<Barrier>(barrier) ==
                    Barrier{CheckpointId(static_cast<uint64_t>(++barriers)), i};
      }
    }
    EXPECT_TRUE(std::holds_alternative<EndOfInput>(WaitPop(receiving.receiver(), arrival)));
    EXPECT_EQ(std::get<Barrier>(WaitPop(receiving.receiver(), arrival)).checkpoint,
              CheckpointId(1'000'000));
    sender.join();
    EXPECT_TRUE(in_order);
    EXPECT_LT(queued_bytes_max, window_bytes + kRowBytesMax);
    EXPECT_FALSE(receiving.receiver().HasElement());
    EXPECT_EQ(receiving.receiver().queued_bytes(), 0);
    EXPECT_EQ(receiving.End(), 0u);
  }
}

TEST_F(TcpDataPlaneTest, CreditIsTakenAtPushAndComesBackInPortions) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  const RecordBatchPtr row = Row(1, std::string(88, 'x'));
  ASSERT_EQ(row->ByteSize(), 100);  // int64, offset, 88 bytes
  Gate credit;
  Gate arrival;
  WorkerRun sending(plane_1, "w1", 1, {}, {SendTo(*plane_2, "w2", kChannel, 1000)});
  WorkerRun receiving(plane_2, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  sending.sender().SetCreditWaker([&] { credit.Notify(); });
  receiving.receiver().SetArrivalWaker([&] { arrival.Notify(); });

  int pushed = 0;
  while (sending.sender().HasCredit()) {
    sending.sender().Push(row);
    ++pushed;
  }
  EXPECT_EQ(pushed, 10);
  sending.sender().Push(row);  // 100 bytes overdrawn
  sending.sender().Push(Barrier{CheckpointId(1)});
  EXPECT_FALSE(sending.sender().HasCredit());

  // Three rows are more than a quarter of the window: 200 bytes of credit.
  for (int i = 0; i < 3; ++i) WaitPop(receiving.receiver(), arrival);
  credit.Wait();
  EXPECT_TRUE(sending.sender().HasCredit());
  for (int i = 3; i < 11; ++i) WaitPop(receiving.receiver(), arrival);
  EXPECT_EQ(std::get<Barrier>(WaitPop(receiving.receiver(), arrival)).checkpoint, CheckpointId(1));
}

TEST_F(TcpDataPlaneTest, ALargeRowDoesNotHoldUpOtherChannels) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  constexpr ChannelId kLarge{1, 0, 0};
  constexpr ChannelId kSmall{1, 0, 1};
  Gate large_arrival;
  Gate small_arrival;
  std::mutex mutex;
  std::vector<std::string> arrivals;
  Gate all_pushed;
  WorkerRun receiving(plane_2, "w2", 1,
                      {ReceiveFrom("w1", kLarge, 1 << 20), ReceiveFrom("w1", kSmall, 1 << 20)}, {});
  receiving.receiver(0).SetArrivalWaker([&] {
    std::lock_guard lock(mutex);
    arrivals.push_back("large");
    large_arrival.Notify();
  });
  receiving.receiver(1).SetArrivalWaker([&] {
    std::lock_guard lock(mutex);
    arrivals.push_back("small");
    small_arrival.Notify();
  });

  // All of it waits before there is a connection: a callback keeps the sender's network thread.
  plane_1->StartGeneration(
      {network_test::kJob, Generation(99), WorkerName("w1"), {}, {}}, [&] { all_pushed.Wait(); },
      [](const Status&) {});
  WorkerRun sending(
      plane_1, "w1", 1, {},
      {SendTo(*plane_2, "w2", kLarge, 1 << 20), SendTo(*plane_2, "w2", kSmall, 1 << 20)});
  std::string text(64 << 20, '\0');
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= text.size(); i += 8) {
    const uint64_t bits = random() & 0x7f7f7f7f7f7f7f7fu;
    std::memcpy(&text[i], &bits, 8);
  }
  sending.sender(0).Push(Row(1, text));
  EXPECT_FALSE(sending.sender(0).HasCredit());
  for (int i = 0; i < 100; ++i) sending.sender(1).Push(Row(i));
  all_pushed.Notify();

  const StreamElement large = WaitPop(receiving.receiver(0), large_arrival);
  EXPECT_EQ(NumberOf(large), 1);
  EXPECT_TRUE(TextOf(large) == text);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(NumberOf(WaitPop(receiving.receiver(1), small_arrival)), i);
  }
  std::lock_guard lock(mutex);
  EXPECT_EQ(arrivals.front(), "small");
}

TEST_F(TcpDataPlaneTest, ABatchThatIsTooLargeToSendEndsTheGeneration) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  WorkerRun sending(plane_1, "w1", 1, {}, {SendTo(*plane_2, "w2", kChannel, 1000)});
  WorkerRun receiving(plane_2, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  sending.WaitConnected();
  sending.sender().Push(Row(1, std::string(81 << 20, 'x')));
  const Status status = sending.WaitBroken();
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_FALSE(status.retryable());
  // Row count, null marks, number, two offsets, text.
  EXPECT_EQ(status.message(), "connection to w2 (" + plane_2->address() +
                                  "): a batch of 1 rows takes " +
                                  std::to_string(8 + 8 + 8 + (81 << 20)) +
                                  " bytes, at most 83886080 can be sent to another worker");
}

// 64 subtasks send to 64, on both workers both; each worker's 64 senders to the 32 of the other
// one.
TEST_F(TcpDataPlaneTest, CarriesManyChannelsInBothDirections) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  std::vector<DataPlane::Send> sends_1;
  std::vector<DataPlane::Send> sends_2;
  std::vector<DataPlane::Receive> receives_1;
  std::vector<DataPlane::Receive> receives_2;
  for (int from = 0; from < 64; ++from) {
    for (int to = 0; to < 64; ++to) {
      const ChannelId channel{3, from, to};
      sends_1.push_back(SendTo(*plane_2, "w2", channel, 1000));
      receives_2.push_back(ReceiveFrom("w1", channel, 1000));
      if (to >= 8) continue;
      const ChannelId back{4, from, to};
      sends_2.push_back(SendTo(*plane_1, "w1", back, 1000));
      receives_1.push_back(ReceiveFrom("w2", back, 1000));
    }
  }
  Gate arrival_1;
  Gate arrival_2;
  WorkerRun run_1(plane_1, "w1", 1, receives_1, sends_1);
  WorkerRun run_2(plane_2, "w2", 1, receives_2, sends_2);
  for (auto& receiver : run_1.channels.receivers) {
    receiver->SetArrivalWaker([&] { arrival_1.Notify(); });
  }
  for (auto& receiver : run_2.channels.receivers) {
    receiver->SetArrivalWaker([&] { arrival_2.Notify(); });
  }
  const auto work = [](WorkerRun* run, Gate* arrival) {
    int64_t number = 0;
    for (int round = 0; round < 5; ++round) {
      for (auto& sender : run->channels.senders) sender->Push(Row(number++));
    }
    for (auto& sender : run->channels.senders) {
      sender->Push(Barrier{CheckpointId(9)});
      sender->Push(EndOfInput{});
    }
    // Each channel brings its five rows, a round apart, the barrier and the end.
    std::vector<int> seen(run->channels.receivers.size());
    size_t ended = 0;
    while (ended < seen.size()) {
      bool progress = false;
      for (size_t i = 0; i < seen.size(); ++i) {
        StreamElement element;
        while (run->receiver(i).TryPop(&element).value()) {
          progress = true;
          if (seen[i] < 5) {
            const int64_t channels = static_cast<int64_t>(seen.size());
            EXPECT_EQ(NumberOf(element), seen[i] * channels + static_cast<int64_t>(i));
          } else if (seen[i] == 5) {
            EXPECT_EQ(std::get<Barrier>(element).checkpoint, CheckpointId(9));
          } else {
            EXPECT_TRUE(std::holds_alternative<EndOfInput>(element));
            ++ended;
          }
          ++seen[i];
        }
      }
      if (!progress) arrival->Wait();
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 7), static_cast<int64_t>(seen.size()));
  };
  std::thread other(work, &run_2, &arrival_2);
  work(&run_1, &arrival_1);
  other.join();
}

TEST_F(TcpDataPlaneTest, ABreakIsReportedOnceAndLeavesTheEndsHarmless) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  TcpDataPlane* plane_3 = StartPlane();
  constexpr ChannelId kOther{1, 1, 0};
  Gate arrival;
  WorkerRun run_1(plane_1, "w1", 1,
                  {ReceiveFrom("w2", kChannel, 1000), ReceiveFrom("w3", kOther, 1000)},
                  {SendTo(*plane_2, "w2", {2, 0, 0}, 1000)});
  run_1.receiver(0).SetArrivalWaker([&] { arrival.Notify(); });
  {
    WorkerRun run_2(plane_2, "w2", 1, {ReceiveFrom("w1", {2, 0, 0}, 1000)},
                    {SendTo(*plane_1, "w1", kChannel, 1000)});
    WorkerRun run_3(plane_3, "w3", 1, {}, {SendTo(*plane_1, "w1", kOther, 1000)});
    run_1.WaitConnected();
    run_2.sender().Push(Row(1));
    run_2.sender().Push(Row(2));
    WaitPop(run_1.receiver(0), arrival);
    plane_2->Stop();
    planes_[2]->Stop();
    // After Stop the ends may be used, to no effect, and there is nobody to call `ended`.
    run_2.sender().Push(Row(3));
    EXPECT_FALSE(run_2.receiver().HasElement());
    run_2.Abandon();
    run_3.Abandon();
  }
  const Status status = run_1.WaitBroken();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(status.retryable());
  EXPECT_TRUE(
      status.message().starts_with("connection from w2 (127.0.0.1:") ||
      status.message().starts_with("connection to w2 (" + plane_2->address() + ") broke: ") ||
      status.message().starts_with("connection from w3 (127.0.0.1:"))
      << status;
  run_1.sender().Push(Row(4));
  EXPECT_EQ(run_1.End(), 1u);
  StreamElement element;
  EXPECT_FALSE(run_1.receiver(0).HasElement());
  EXPECT_FALSE(run_1.receiver(0).TryPop(&element).value());
  EXPECT_EQ(run_1.receiver(0).queued_bytes(), 0);
}

TEST_F(TcpDataPlaneTest, EndingAGenerationClosesItsConnectionsAndNoOthers) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  Gate arrival;
  WorkerRun first_1(plane_1, "w1", 1, {}, {SendTo(*plane_2, "w2", kChannel, 1000)});
  WorkerRun first_2(plane_2, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  WorkerRun second_1(plane_1, "w1", 2, {}, {SendTo(*plane_2, "w2", kChannel, 1000)});
  WorkerRun second_2(plane_2, "w2", 2, {ReceiveFrom("w1", kChannel, 1000)}, {});
  second_2.receiver().SetArrivalWaker([&] { arrival.Notify(); });
  first_1.WaitConnected();
  first_2.WaitConnected();
  EXPECT_EQ(first_1.End(), 0u);
  const Status status = first_2.WaitBroken();
  EXPECT_TRUE(status.message().starts_with("connection from w1 (127.0.0.1:")) << status;
  EXPECT_TRUE(status.message().ends_with(") broke: closed by the peer")) << status;
  second_1.sender().Push(Row(5));
  EXPECT_EQ(NumberOf(WaitPop(second_2.receiver(), arrival)), 5);
}

TEST_F(TcpDataPlaneTest, AGenerationWithoutChannelsIsConnectedAtOnce) {
  TcpDataPlane* plane = StartPlane();
  WorkerRun run(plane, "w1", 1, {}, {});
  run.WaitConnected();
}

}  // namespace
}  // namespace weir
