// The bytes of a data connection: fixed vectors, round trips however the stream is cut, and hostile
// streams, which are refused before memory is taken for them.
#include "worker/network/frame_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace weir {
namespace {

// Puts elements together and writes down everything else.
class Recorder : public FrameHandler {
 public:
  StatusOr<char*> BeginFragment(const FrameHeader& header) override {
    return assemblers[header.channel].Begin(header);
  }
  Status EndFragment(const FrameHeader& header) override {
    ElementAssembler& assembler = assemblers[header.channel];
    if (assembler.End(header)) {
      const EncodedElement element = assembler.Take();
      events.push_back("element of " + ToString(header.channel) + " credit " +
                       std::to_string(element.credit_bytes));
      elements.emplace_back(reinterpret_cast<const char*>(element.bytes->data()),
                            element.bytes->size());
    }
    return {};
  }
  Status OnFrame(const FrameHeader& header, std::string_view payload) override {
    events.push_back("frame " + std::to_string(static_cast<int>(header.kind)) + " of " +
                     ToString(header.channel) + " credit " + std::to_string(header.credit_bytes));
    payloads.push_back(std::string(payload));
    return {};
  }

  std::map<ChannelId, ElementAssembler> assemblers;
  std::vector<std::string> events;
  std::vector<std::string> elements;
  std::vector<std::string> payloads;
};

FrameHeaderBytes Bytes(std::string_view hex) {
  FrameHeaderBytes bytes{};
  size_t count = 0;
  for (size_t i = 0; i < hex.size();) {
    if (hex[i] == ' ') {
      ++i;
      continue;
    }
    bytes[count++] = static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    i += 2;
  }
  EXPECT_EQ(count, kFrameHeaderBytes);
  return bytes;
}

std::string Fragments(const ChannelId& channel, std::string_view element, int64_t credit_bytes) {
  std::string stream;
  for (size_t offset = 0; offset < element.size();) {
    const FrameHeader header = FragmentHeader(channel, element.size(), credit_bytes, offset);
    stream += EncodeFrame(header, element.substr(offset, header.payload_bytes));
    offset += header.payload_bytes;
  }
  return stream;
}

FrameHeader Header(FrameKind kind, ChannelId channel = {}) {
  FrameHeader header;
  header.kind = kind;
  header.channel = channel;
  return header;
}

TEST(FrameHeaderTest, HasTheseBytes) {
  // Written by hand from the table in frame_codec.h.
  const FrameHeader data{0x1234, FrameKind::kData, true, {1, 2, 0x0304}, 0x01000000, 0x00fedcba};
  const FrameHeaderBytes expected =
      Bytes("34120000 04 01 0000 01000000 02000000 04030000 00000001 badcfe00 00000000");
  EXPECT_EQ(EncodeFrameHeader(data), expected);
  EXPECT_EQ(DecodeFrameHeader(expected).value(), data);

  FrameHeader credit = Header(FrameKind::kCredit, {0, 0, 7});
  credit.credit_bytes = 0x0102030405;
  const FrameHeaderBytes expected_credit =
      Bytes("00000000 07 00 0000 00000000 00000000 07000000 00000000 05040302 01000000");
  EXPECT_EQ(EncodeFrameHeader(credit), expected_credit);
  EXPECT_EQ(DecodeFrameHeader(expected_credit).value(), credit);
}

TEST(FrameHeaderTest, RefusesWhatNoSenderWrites) {
  for (const char* hex : {
           // kind 0, kind 8
           "00000000 00 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           "00000000 08 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           // DATA of no bytes; of more than 256 KiB
           "00000000 04 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           "01000400 04 01 0000 00000000 00000000 00000000 00000002 00000000 00000000",
           // DATA larger than its element; of an element of 2 GiB; with credit of 2^63
           "10000000 04 00 0000 00000000 00000000 00000000 0f000000 00000000 00000000",
           "10000000 04 01 0000 00000000 00000000 00000000 00000080 00000000 00000000",
           "10000000 04 00 0000 00000000 00000000 00000000 10000000 00000000 00000080",
           // an unknown flag, the more flag where it has no meaning, the unused field
           "10000000 04 02 0000 00000000 00000000 00000000 10000000 00000000 00000000",
           "00000000 06 01 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           "00000000 06 00 0001 00000000 00000000 00000000 00000000 00000000 00000000",
           // a negative subtask; a channel on HELLO
           "00000000 06 00 0000 00000000 ffffffff 00000000 00000000 00000000 00000000",
           "10000000 01 00 0000 01000000 00000000 00000000 00000000 00000000 00000000",
           // BARRIER of 15 bytes; END_OF_INPUT, WELCOME and CREDIT with a payload; a long reason
           "0f000000 05 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           "01000000 06 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           "01000000 02 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           "01000000 07 00 0000 00000000 00000000 00000000 00000000 01000000 00000000",
           "01040000 03 00 0000 00000000 00000000 00000000 00000000 00000000 00000000",
           // credit on a barrier, an element size on one
           "10000000 05 00 0000 00000000 00000000 00000000 00000000 01000000 00000000",
           "10000000 05 00 0000 00000000 00000000 00000000 01000000 00000000 00000000",
       }) {
    EXPECT_EQ(DecodeFrameHeader(Bytes(hex)).status().code(), StatusCode::kDataLoss) << hex;
  }
}

TEST(HelloTest, HasTheseBytesAndRefusesOthers) {
  const HelloFrame hello{JobId("ab"), Generation(3), WorkerName("w1"), WorkerName("x")};
  const std::string bytes(
      "WEIR\x02\x00\x03\x00\x00\x00\x00\x00\x00\x00\x02\x00"
      "ab\x02\x00w1\x01\x00x",
      25);
  EXPECT_EQ(EncodeHello(hello).value(), bytes);
  EXPECT_EQ(DecodeHello(bytes).value(), hello);

  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeHello(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeHello(bytes + "y").ok());
  EXPECT_FALSE(DecodeHello("GET / HTTP/1.1\r\nHost: worker\r\n\r\n").ok());
  std::string newer = bytes;
  newer[4] = 3;
  EXPECT_EQ(DecodeHello(newer).status().message(),
            "the peer speaks version 3 of the data protocol, this worker version 2");
  std::string long_name = bytes;
  long_name[15] = 1;  // a job id of 258 bytes
  EXPECT_FALSE(DecodeHello(long_name).ok());
  EXPECT_FALSE(EncodeHello({JobId(std::string(65, 'a')), Generation(1), {}, {}}).ok());
  EXPECT_FALSE(
      EncodeHello({JobId("a"), Generation(1), WorkerName(std::string(256, 'w')), {}}).ok());
}

TEST(BarrierTest, HasTheseBytes) {
  const Barrier barrier{CheckpointId(0x11), -2};
  const std::string bytes("\x11\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 16);
  EXPECT_EQ(EncodeBarrier(barrier), bytes);
  EXPECT_EQ(DecodeBarrier(bytes), barrier);
}

TEST(FragmentTest, CutsAt256KiB) {
  const ChannelId channel{1, 2, 3};
  FrameHeader header = FragmentHeader(channel, 262144, 9, 0);
  EXPECT_EQ(header.payload_bytes, 262144u);
  EXPECT_FALSE(header.more);
  header = FragmentHeader(channel, 262145, 9, 0);
  EXPECT_EQ(header.payload_bytes, 262144u);
  EXPECT_TRUE(header.more);
  header = FragmentHeader(channel, 262145, 9, 262144);
  EXPECT_EQ(header.payload_bytes, 1u);
  EXPECT_FALSE(header.more);
}

// A stream of all kinds, fed in pieces of several sizes and, where allowed, straight into place.
TEST(FrameDecoderTest, FindsTheFramesHoweverTheStreamIsCut) {
  std::mt19937_64 random(7);
  std::string large(600'000, '\0');
  for (char& byte : large) byte = static_cast<char>(random());
  const ChannelId one{1, 0, 0};
  const ChannelId two{1, 0, 1};
  std::string stream = EncodeFrame(Header(FrameKind::kHello), "hello");
  stream += EncodeFrame(Header(FrameKind::kWelcome), "");
  // The fragments of `large` with another channel's element between them.
  const std::string fragments = Fragments(one, large, 599'000);
  const size_t first_bytes = kFrameHeaderBytes + kFragmentBytesMax;
  stream += fragments.substr(0, first_bytes);
  stream += Fragments(two, "small", 5);
  stream += fragments.substr(first_bytes);
  stream += EncodeFrame(Header(FrameKind::kBarrier, one), EncodeBarrier({CheckpointId(4), 5}));
  stream += EncodeFrame(Header(FrameKind::kEndOfInput, two), "");
  FrameHeader credit = Header(FrameKind::kCredit, one);
  credit.credit_bytes = 77;
  stream += EncodeFrame(credit, "");

  const std::vector<std::string> events = {
      "frame 1 of edge 0, subtask 0 to 0 credit 0",
      "frame 2 of edge 0, subtask 0 to 0 credit 0",
      "element of edge 1, subtask 0 to 1 credit 5",
      "element of edge 1, subtask 0 to 0 credit 599000",
      "frame 5 of edge 1, subtask 0 to 0 credit 0",
      "frame 6 of edge 1, subtask 0 to 1 credit 0",
      "frame 7 of edge 1, subtask 0 to 0 credit 77",
  };
  for (const size_t piece : {size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{5000},
                             size_t{300'000}, stream.size()}) {
    for (const bool straight : {false, true}) {
      Recorder recorder;
      FrameDecoder decoder(&recorder);
      for (size_t at = 0; at < stream.size();) {
        const size_t size = std::min(piece, stream.size() - at);
        const std::span<char> rest = decoder.fragment_rest();
        if (straight && !rest.empty()) {
          const size_t direct = std::min(size, rest.size());
          std::copy_n(stream.data() + at, direct, rest.data());
          ASSERT_TRUE(decoder.FragmentBytesRead(direct).ok());
          at += direct;
        } else {
          ASSERT_TRUE(decoder.Consume({stream.data() + at, size}).ok());
          at += size;
        }
      }
      EXPECT_EQ(recorder.events, events) << "pieces of " << piece;
      EXPECT_EQ(recorder.elements, (std::vector<std::string>{"small", large}));
      EXPECT_EQ(recorder.payloads[0], "hello");
      EXPECT_EQ(DecodeBarrier(recorder.payloads[2]), (Barrier{CheckpointId(4), 5}));
    }
  }
}

TEST(ElementAssemblerTest, RefusesFragmentsThatDoNotContinue) {
  const FrameHeader first = FragmentHeader({}, 300'000, 50, 0);
  const FrameHeader last = FragmentHeader({}, 300'000, 50, kFragmentBytesMax);
  const auto change = [](FrameHeader header, auto&& how) {
    how(header);
    return header;
  };
  for (const FrameHeader& wrong : {change(last, [](FrameHeader& h) { h.element_bytes = 300'001; }),
                                   change(last, [](FrameHeader& h) { h.credit_bytes = 51; }),
                                   change(last, [](FrameHeader& h) { h.payload_bytes += 1; }),
                                   change(last, [](FrameHeader& h) { h.payload_bytes -= 1; }),
                                   change(last, [](FrameHeader& h) { h.more = true; }), first}) {
    ElementAssembler assembler;
    ASSERT_TRUE(assembler.Begin(first).ok());
    ASSERT_FALSE(assembler.End(first));
    EXPECT_EQ(assembler.Begin(wrong).status().code(), StatusCode::kDataLoss);
  }
  ElementAssembler assembler;
  ASSERT_TRUE(assembler.Begin(first).ok());
  ASSERT_FALSE(assembler.End(first));
  ASSERT_TRUE(assembler.Begin(last).ok());
  ASSERT_TRUE(assembler.End(last));
  EXPECT_EQ(assembler.Take().bytes->size(), 300'000u);
  EXPECT_FALSE(assembler.in_progress());
}

// Streams that are damaged at a few places, and streams of noise: never a crash, never a frame that
// breaks its limits; a stream that was accepted whole may only differ in contents.
TEST(FrameDecoderTest, SurvivesHostileStreams) {
  std::string valid = EncodeFrame(Header(FrameKind::kHello), "hello");
  valid += Fragments({1, 0, 0}, std::string(270'000, 'a'), 270'000);
  valid += EncodeFrame(Header(FrameKind::kBarrier, {1, 0, 0}), std::string(16, 'b'));
  valid += Fragments({1, 0, 1}, "xyz", 3);
  valid += EncodeFrame(Header(FrameKind::kEndOfInput, {1, 0, 1}), "");
  int refused = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string stream;
    if (seed % 10 == 0) {
      stream.resize(2000);
      for (char& byte : stream) byte = static_cast<char>(random());
    } else {
      stream = valid;
      // Mostly headers: payload bytes may be anything.
      const size_t headers[] = {0, 37, 37 + 32 + 262144, valid.size() - 32, valid.size() - 67};
      for (uint64_t i = 0; i <= random() % 3; ++i) {
        const size_t at = headers[random() % 5] + random() % kFrameHeaderBytes;
        stream[std::min(at, stream.size() - 1)] = static_cast<char>(random());
      }
    }
    Recorder recorder;
    FrameDecoder decoder(&recorder);
    Status status;
    for (size_t at = 0; at < stream.size() && status.ok();) {
      const size_t size = std::min<size_t>(1 + random() % 4096, stream.size() - at);
      status = decoder.Consume({stream.data() + at, size});
      at += size;
    }
    refused += status.ok() ? 0 : 1;
    size_t total_bytes = 0;
    for (const std::string& element : recorder.elements) total_bytes += element.size();
    for (const std::string& payload : recorder.payloads) total_bytes += payload.size();
    ASSERT_LE(total_bytes, stream.size());
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace weir
