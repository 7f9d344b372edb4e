// Who may connect, when, and what becomes of peers that do not speak the protocol.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/worker/network/plane_fixtures.h"
#include "worker/network/link.h"

namespace weir {
namespace {

using network_test::kJob;
using network_test::NumberOf;
using network_test::PlaneTest;
using network_test::RawPeer;
using network_test::ReceiveFrom;
using network_test::Row;
using network_test::TextOf;
using network_test::WaitPop;
using network_test::WorkerRun;

using HandshakeTest = PlaneTest;

constexpr ChannelId kChannel{1, 0, 0};
constexpr std::string_view kJobName = "0123456789abcdef0123456789abcdef";

std::string Encoded(const RecordBatchPtr& batch) {
  const EncodedBatch encoded(batch);
  std::string bytes;
  for (const std::string_view piece : encoded.pieces()) bytes += piece;
  return bytes;
}

TcpDataPlane::Options ShortTimeouts(int64_t hello_hold_us, int64_t connect_us) {
  TcpDataPlane::Options options;
  options.timeouts = {hello_hold_us, connect_us};
  return options;
}

constexpr int64_t kLongUs = 60'000'000;

// Ends generation `generation` on `plane`, where it may never have been started.
void EndGeneration(TcpDataPlane* plane, uint64_t generation) {
  Gate ended;
  plane->EndGeneration(kJob, Generation(generation), [&] { ended.Notify(); });
  ended.Wait();
}

TEST_F(HandshakeTest, AHelloMayBeAheadOfItsGeneration) {
  TcpDataPlane* plane = StartPlane();
  EndGeneration(plane, 4);
  RawPeer early(plane->address());
  early.SendHello(5, "w1", "w2");
  // When a later peer has its answer, the plane has read the early hello as well.
  RawPeer late(plane->address());
  late.SendHello(4, "w1", "w2");
  EXPECT_EQ(late.ReceiveAnswer(),
            "refused: generation 4 of job " + std::string(kJobName) + " has ended here");

  Gate arrival;
  WorkerRun run(plane, "w2", 5, {ReceiveFrom("w1", kChannel, 1000)}, {});
  run.receiver().SetArrivalWaker([&] { arrival.Notify(); });
  EXPECT_EQ(early.ReceiveAnswer(), "welcome");
  run.WaitConnected();
  const RecordBatchPtr row = Row(42, "abc");
  early.SendElement(kChannel, Encoded(row), row->ByteSize());
  EXPECT_EQ(NumberOf(WaitPop(run.receiver(), arrival)), 42);
}

TEST_F(HandshakeTest, AHelloOfAnUnknownGenerationIsRefusedInTheEnd) {
  TcpDataPlane* plane = StartPlane(ShortTimeouts(20'000, kLongUs));
  RawPeer peer(plane->address());
  peer.SendHello(5, "w1", "w2");
  EXPECT_EQ(peer.ReceiveAnswer(),
            "refused: generation 5 of job " + std::string(kJobName) + " has not been started here");
}

TEST_F(HandshakeTest, AHeldHelloIsRefusedWhenItsGenerationEnds) {
  TcpDataPlane* plane = StartPlane(ShortTimeouts(kLongUs, kLongUs));
  EndGeneration(plane, 4);
  RawPeer held(plane->address());
  held.SendHello(5, "w1", "w2");
  RawPeer late(plane->address());
  late.SendHello(3, "w1", "w2");  // older than an ended one
  EXPECT_EQ(late.ReceiveAnswer(),
            "refused: generation 3 of job " + std::string(kJobName) + " has ended here");
  EndGeneration(plane, 5);
  EXPECT_EQ(held.ReceiveAnswer(),
            "refused: generation 5 of job " + std::string(kJobName) + " has ended here");
}

TEST_F(HandshakeTest, TheDiallerReportsARefusal) {
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  EndGeneration(plane_2, 7);
  WorkerRun run(plane_1, "w1", 7, {}, {SendTo(*plane_2, "w2", kChannel, 1000)});
  EXPECT_EQ(run.WaitBroken().message(),
            "connection to w2 (" + plane_2->address() +
                ") could not be made: refused by the peer: generation 7 "
                "of job " +
                std::string(kJobName) + " has ended here");
  EXPECT_EQ(run.End(), 1u);
  EXPECT_FALSE(run.is_connected());
}

TEST_F(HandshakeTest, NobodyListensAnswersOrDials) {
  // A port that was free a moment ago.
  Socket listener = Listen({"127.0.0.1", 0}).value();
  const std::string free_address = "127.0.0.1:" + std::to_string(LocalPort(listener.fd()).value());
  listener.Close();
  TcpDataPlane* plane = StartPlane(ShortTimeouts(kLongUs, 20'000));
  WorkerRun refused(plane, "w1", 1, {}, {{kChannel, WorkerName("w2"), free_address, 1000}});
  EXPECT_EQ(refused.WaitBroken().message(),
            "connection to w2 (" + free_address + ") could not be made: Connection refused");

  Socket silent = Listen({"127.0.0.1", 0}).value();
  const std::string silent_address = "127.0.0.1:" + std::to_string(LocalPort(silent.fd()).value());
  WorkerRun unanswered(plane, "w1", 2, {}, {{kChannel, WorkerName("w2"), silent_address, 1000}});
  EXPECT_EQ(unanswered.WaitBroken().message(), "connection to w2 (" + silent_address +
                                                   ") could not be made: the peer does not answer");

  WorkerRun unwanted(plane, "w1", 3, {ReceiveFrom("w2", kChannel, 1000)}, {});
  EXPECT_EQ(unwanted.WaitBroken().message(), "connection from w2 did not come within 20 ms");

  WorkerRun nowhere(plane, "w1", 4, {}, {{kChannel, WorkerName("w2"), "worker", 1000}});
  EXPECT_EQ(nowhere.WaitBroken().code(), StatusCode::kInvalidArgument);
}

TEST_F(HandshakeTest, RefusesTheWrongWorkerAndASecondConnection) {
  TcpDataPlane* plane = StartPlane();
  WorkerRun run(plane, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  RawPeer misled(plane->address());
  misled.SendHello(1, "w1", "w3");
  EXPECT_EQ(misled.ReceiveAnswer(), "refused: this is worker w2, not w3");
  RawPeer stranger(plane->address());
  stranger.SendHello(1, "w9", "w2");
  EXPECT_EQ(stranger.ReceiveAnswer(),
            "refused: nothing is expected from worker w9 in generation 1 "
            "of job " +
                std::string(kJobName));
  RawPeer first(plane->address());
  first.SendHello(1, "w1", "w2");
  EXPECT_EQ(first.ReceiveAnswer(), "welcome");
  RawPeer second(plane->address());
  second.SendHello(1, "w1", "w2");
  EXPECT_EQ(
      second.ReceiveAnswer(),
      "refused: worker w1 has connected before in generation 1 of job " + std::string(kJobName));
  EXPECT_EQ(run.End(), 0u);
}

TEST_F(HandshakeTest, AnotherProtocolIsTurnedAwayAndThePlaneLivesOn) {
  TcpDataPlane* plane = StartPlane();
  WorkerRun run(plane, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  RawPeer http(plane->address());
  http.Send("GET / HTTP/1.1\r\nHost: worker\r\nAccept: */*\r\n\r\n");
  EXPECT_EQ(http.ReceiveAnswer(), "closed");
  RawPeer newer(plane->address());
  newer.SendFrame(FrameKind::kHello, {}, std::string("WEIR\x03\x00", 6));
  EXPECT_EQ(newer.ReceiveAnswer(),
            "refused: the peer speaks version 3 of the data protocol, this worker version 2");
  RawPeer hasty(plane->address());
  hasty.SendFrame(FrameKind::kEndOfInput, kChannel);
  EXPECT_EQ(hasty.ReceiveAnswer(), "closed");
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::string noise(1 + random() % 300, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    if (seed % 2 == 0) noise.replace(0, std::min<size_t>(noise.size(), 5), "\x20\0\0\0\x01", 5);
    RawPeer(plane->address()).Send(noise);
  }
  RawPeer peer(plane->address());
  peer.SendHello(1, "w1", "w2");
  EXPECT_EQ(peer.ReceiveAnswer(), "welcome");
  EXPECT_EQ(run.End(), 0u);
}

// Each of these ends the generation, and names the peer and what it did.
TEST_F(HandshakeTest, AConnectedPeerThatBreaksTheProtocolEndsTheGeneration) {
  TcpDataPlane* plane = StartPlane();
  const std::string element = Encoded(Row(1, std::string(300'000, 'x')));
  struct Case {
    std::string what;
    std::function<void(RawPeer&)> act;
  };
  const std::vector<Case> cases = {
      {"which this worker does not have",
       [&](RawPeer& peer) { peer.SendFrame(FrameKind::kEndOfInput, {1, 0, 5}); }},
      {"a frame of kind 1", [&](RawPeer& peer) { peer.SendHello(1, "w1", "w2"); }},
      {"a frame of kind 7",
       [&](RawPeer& peer) {
         FrameHeader credit;
         credit.kind = FrameKind::kCredit;
         credit.channel = kChannel;
         credit.credit_bytes = 1;
         peer.Send(EncodeFrame(credit, {}));
       }},
      {"interrupted within an element",
       [&](RawPeer& peer) {
         peer.SendElement(kChannel, element, 1);  // its first fragment
         peer.SendFrame(FrameKind::kEndOfInput, kChannel);
       }},
      {"goes on after its end",
       [&](RawPeer& peer) {
         peer.SendFrame(FrameKind::kEndOfInput, kChannel);
         peer.SendElement(kChannel, element, 1);
       }},
      {"are no frame", [&](RawPeer& peer) { peer.Send(std::string(32, '\xff')); }},
  };
  uint64_t generation = 0;
  for (const Case& test : cases) {
    WorkerRun run(plane, "w2", ++generation, {ReceiveFrom("w1", kChannel, 1000)}, {});
    RawPeer peer(plane->address());
    peer.SendHello(generation, "w1", "w2");
    ASSERT_EQ(peer.ReceiveAnswer(), "welcome");
    test.act(peer);
    const Status status = run.WaitBroken();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_TRUE(status.message().starts_with("connection from w1 (127.0.0.1:")) << status;
    EXPECT_NE(status.message().find(test.what), std::string::npos) << status;
    EXPECT_EQ(peer.ReceiveAnswer(), "closed");
  }
}

TEST_F(HandshakeTest, BytesThatAreNoBatchAreReportedByTheReceivingEnd) {
  TcpDataPlane* plane = StartPlane();
  Gate arrival;
  WorkerRun run(plane, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  run.receiver().SetArrivalWaker([&] { arrival.Notify(); });
  RawPeer peer(plane->address());
  peer.SendHello(1, "w1", "w2");
  ASSERT_EQ(peer.ReceiveAnswer(), "welcome");
  peer.SendElement(kChannel, "these are no columns", 20);
  arrival.Wait();
  StreamElement element;
  const StatusOr<bool> popped = run.receiver().TryPop(&element);
  EXPECT_EQ(popped.status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(popped.status().message().starts_with("channel edge 1, subtask 0 to 0 from w1: "))
      << popped.status();
}

// A long fragment in pieces: the receiver sleeps until all of it is there, and wakes when it never
// will be.
TEST_F(HandshakeTest, AFragmentMayComeInPiecesOrNotToItsEnd) {
  TcpDataPlane* plane = StartPlane();
  Gate arrival;
  WorkerRun run(plane, "w2", 1, {ReceiveFrom("w1", kChannel, 1000)}, {});
  run.receiver().SetArrivalWaker([&] { arrival.Notify(); });
  std::optional<RawPeer> peer(plane->address());
  peer->SendHello(1, "w1", "w2");
  ASSERT_EQ(peer->ReceiveAnswer(), "welcome");
  const std::string text(200'000, 'x');
  const std::string element = Encoded(Row(42, text));
  const std::string frame = EncodeFrame(FragmentHeader(kChannel, element.size(), 1, 0), element);
  for (size_t at = 0; at < frame.size(); at += 30'000) peer->Send(frame.substr(at, 30'000));
  EXPECT_EQ(TextOf(WaitPop(run.receiver(), arrival)), text);
  peer->SendElement(kChannel, Encoded(Row(43)), 1);
  EXPECT_EQ(NumberOf(WaitPop(run.receiver(), arrival)), 43);

  peer->Send(frame.substr(0, 100'000));
  peer.reset();
  EXPECT_NE(run.WaitBroken().message().find("closed by the peer"), std::string::npos);
}

// A listener of the test, for a raw peer that plays the acceptor.
Socket RawListener(std::string* address) {
  Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(listener.fd(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
  EXPECT_EQ(listen(listener.fd(), 1), 0);
  *address = "127.0.0.1:" + std::to_string(LocalPort(listener.fd()).value());
  return listener;
}

// What is written without waiting is at the peer, on this machine, when Push or Flush returns.
TEST_F(HandshakeTest, WhatIsQueuedWaitsForTheFlushScopeUnlessItIsMuch) {
  TcpDataPlane* plane = StartPlane();
  std::string address;
  const Socket listener = RawListener(&address);
  WorkerRun run(plane, "w1", 1, {}, {{kChannel, WorkerName("w2"), address, 1 << 20}});
  const Socket accepted(accept(listener.fd(), nullptr, nullptr));
  const int fd = dup(accepted.fd());
  RawPeer peer{Socket(fd)};
  ASSERT_TRUE(peer.Receive().has_value());  // hello
  peer.SendFrame(FrameKind::kWelcome);
  run.WaitConnected();
  const auto is_there = [&] {
    char byte;
    return recv(accepted.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  };
  // Once it has answered this, the network thread has written what it had to.
  const auto wait_for_network_thread = [&] { EndGeneration(plane, 99); };
  wait_for_network_thread();
  {
    FlushScope scope;
    run.sender().Push(Row(2));
    EXPECT_FALSE(is_there());
    scope.Flush();
    EXPECT_TRUE(is_there());
    EXPECT_EQ(peer.Receive()->first.kind, FrameKind::kData);

    run.sender().Push(Row(3));
    EXPECT_FALSE(is_there());
    run.sender().Push(Row(4, std::string(300'000, 'x')));
    EXPECT_EQ(peer.Receive()->first.kind, FrameKind::kData);  // 3
    EXPECT_TRUE(peer.Receive()->first.more);
    EXPECT_FALSE(peer.Receive()->first.more);

    wait_for_network_thread();
    run.sender().Push(EndOfInput{});
    EXPECT_FALSE(is_there());
  }
  EXPECT_EQ(peer.Receive()->first.kind, FrameKind::kEndOfInput);
}

TEST_F(HandshakeTest, CreditThatWasNeverTakenEndsTheGeneration) {
  // The raw peer plays the acceptor: a plane that dials a listener of the test.
  TcpDataPlane* plane = StartPlane();
  std::string address;
  const Socket listener = RawListener(&address);
  WorkerRun run(plane, "w1", 1, {}, {{kChannel, WorkerName("w2"), address, 1000}});
  RawPeer peer{Socket(accept(listener.fd(), nullptr, nullptr))};
  const auto hello = peer.Receive();
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(DecodeHello(hello->second).value(),
            (HelloFrame{kJob, Generation(1), WorkerName("w1"), WorkerName("w2")}));
  peer.SendFrame(FrameKind::kWelcome);
  run.WaitConnected();
  const RecordBatchPtr row = Row(1);
  run.sender().Push(row);
  const auto data = peer.Receive();
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->second, Encoded(row));
  EXPECT_EQ(data->first.credit_bytes, row->ByteSize());
  FrameHeader credit;
  credit.kind = FrameKind::kCredit;
  credit.channel = kChannel;
  credit.credit_bytes = row->ByteSize() + 1;
  peer.Send(EncodeFrame(credit, {}));
  const Status status = run.WaitBroken();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("has not taken"), std::string::npos) << status;
}

TEST(TcpDataPlaneAddressTest, AddressIsWhatPeersDial) {
  TcpDataPlane::Options options;
  options.advertised_host = "worker-1.example";
  TcpDataPlane plane(options);
  ASSERT_TRUE(plane.Start().ok());
  EXPECT_TRUE(plane.address().starts_with("worker-1.example:"));
  EXPECT_NE(plane.address(), "worker-1.example:0");

  options.listen = "127.0.0.1";
  TcpDataPlane nowhere(options);
  EXPECT_EQ(nowhere.Start().code(), StatusCode::kInvalidArgument);
  // The port is taken: the same one again.
  options.listen = "127.0.0.1" + plane.address().substr(plane.address().rfind(':'));
  TcpDataPlane taken(options);
  EXPECT_EQ(taken.Start().domain(), ErrorDomain::kExternal);
}

TEST(HostPortTest, ReadsAndRefuses) {
  EXPECT_EQ(ParseHostPort("127.0.0.1:7071")->host, "127.0.0.1");
  EXPECT_EQ(ParseHostPort("127.0.0.1:7071")->port, 7071);
  EXPECT_EQ(ParseHostPort("[::1]:0")->host, "::1");
  EXPECT_EQ(ToString(HostPort{"::1", 80}), "[::1]:80");
  for (const char* text :
       {"", "host", "host:", ":80", "host:x", "host:65536", "host:-1", "::1:80", "host:80 "}) {
    EXPECT_EQ(ParseHostPort(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace weir
