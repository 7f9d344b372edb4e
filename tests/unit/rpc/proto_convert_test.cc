// Goal: nothing that one process says is lost on its way to another, and no bytes of a peer do
// harm. Method: every proto message is filled by reflection, turned into its domain struct and
// back, and compared; and the fields of both are counted, so that one that was added to one side
// alone shows.

#include "common/rpc/proto_convert.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>
#include <type_traits>

#include "common/rpc/proto_text.h"
#include "tests/unit/rpc/filled_message.h"

namespace weir {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

struct Anything {
  template <typename T>
    requires(!IsOptional<T>::value)
  operator T() const;  // NOLINT: only its type matters
};

// Number of members of an aggregate: as many initialisers as it takes.
template <typename T, typename... Members>
constexpr int MemberCount() {
  if constexpr (requires { T{Members()..., Anything()}; }) {
    return MemberCount<T, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}
struct ThreeMembers {
  std::string text;
  std::optional<std::vector<int>> list;
  Status status;
};
static_assert(MemberCount<ThreeMembers>() == 3);

std::set<std::string>& Covered() {
  static std::set<std::string> covered;
  return covered;
}

template <typename Proto, typename Domain>
void ExpectRoundTrip(int member_count) {
  const std::string name = Proto::descriptor()->full_name();
  SCOPED_TRACE(name);
  Covered().insert(name);
  Proto filled;
  MessageFiller().Fill(&filled);

  Domain domain;
  Status status = FromProto(Proto(filled), &domain);
  ASSERT_TRUE(status.ok()) << status;
  Proto back;
  ToProto(std::move(domain), &back);
  std::string difference;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(filled, back)) << difference;

  // Through the wire as well: what is no UTF-8 would make the receiver refuse it.
  Proto parsed;
  EXPECT_TRUE(parsed.ParseFromString(back.SerializeAsString()));

  int fields = Proto::descriptor()->field_count();
  if (Proto::descriptor()->FindFieldByName("status") != nullptr) --fields;
  EXPECT_EQ(fields, member_count) << "one side has a field that the other lacks";
}

template <typename Proto, typename Domain>
void ExpectRoundTrip() {
  ExpectRoundTrip<Proto, Domain>(MemberCount<Domain>());
}

TEST(ProtoConvertTest, EveryMessageComesBackAsItWent) {
  ExpectRoundTrip<v1::Schema, Schema>(/*member_count=*/1);
  Covered().insert("weir.v1.Field");  // within Schema
  ExpectRoundTrip<v1::JobVertex, JobVertex>();
  ExpectRoundTrip<v1::JobEdge, JobEdge>();
  ExpectRoundTrip<v1::JobGraph, JobGraph>();
  ExpectRoundTrip<v1::JobRecord, JobRecord>();

  ExpectRoundTrip<v1::KeyGroupSlice, KeyGroupSlice>();
  ExpectRoundTrip<v1::StateHandle, StateHandle>();
  ExpectRoundTrip<v1::Committable, Committable>();
  ExpectRoundTrip<v1::OperatorSnapshot, OperatorSnapshot>();
  ExpectRoundTrip<v1::CheckpointManifest::OperatorInfo, CheckpointManifest::OperatorInfo>();
  ExpectRoundTrip<v1::CheckpointManifest, CheckpointManifest>();
  ExpectRoundTrip<v1::SnapshotMetrics, SnapshotMetrics>();
  // The totals are fields of the entry.
  ExpectRoundTrip<v1::LogEntry, LogEntry>(MemberCount<LogEntry>() - 1 + MemberCount<JobTotals>());

  ExpectRoundTrip<v1::WorkerInfo, WorkerInfo>();
  ExpectRoundTrip<v1::SinkProgress, SinkProgress>();
  ExpectRoundTrip<v1::SubtaskMetrics, SubtaskMetrics>();

  ExpectRoundTrip<v1::CheckJobRequest, CheckJobRequest>();
  ExpectRoundTrip<v1::TaskAssignment, TaskAssignment>();
  ExpectRoundTrip<v1::WorkerAddress, WorkerAddress>();
  ExpectRoundTrip<v1::StartTasksRequest, StartTasksRequest>();
  ExpectRoundTrip<v1::TriggerRequest, TriggerRequest>();
  ExpectRoundTrip<v1::CheckpointNotice, CheckpointNotice>();
  ExpectRoundTrip<v1::EndTasksRequest, EndTasksRequest>();
  ExpectRoundTrip<v1::SettleRequest, SettleRequest>();

  ExpectRoundTrip<v1::HelloResponse, HelloResponse>();
  ExpectRoundTrip<v1::RegisterRequest, RegisterRequest>();
  ExpectRoundTrip<v1::RegisterResponse, RegisterResponse>();
  ExpectRoundTrip<v1::HostedGeneration, HostedGeneration>();
  ExpectRoundTrip<v1::HeartbeatRequest, HeartbeatRequest>();
  ExpectRoundTrip<v1::HeartbeatResponse, HeartbeatResponse>();
  Covered().insert("weir.v1.JobGeneration");  // within HeartbeatResponse
  ExpectRoundTrip<v1::TaskReport, TaskReport>();
  ExpectRoundTrip<v1::ReportTasksRequest, ReportTasksRequest>();
  ExpectRoundTrip<v1::TaskAck, TaskAck>();
  ExpectRoundTrip<v1::AcknowledgeRequest, AcknowledgeRequest>();
  ExpectRoundTrip<v1::PublishReport, PublishReport>();
  ExpectRoundTrip<v1::ReportPublishedRequest, ReportPublishedRequest>();
  ExpectRoundTrip<v1::ConfirmCurrentRequest, ConfirmCurrentRequest>();

  ExpectRoundTrip<v1::SubmitRequest, SubmitRequest>();
  ExpectRoundTrip<v1::SubmitResponse, SubmitResponse>();
  ExpectRoundTrip<v1::Failure, Failure>();
  ExpectRoundTrip<v1::FailingCheckpoints, FailingCheckpoints>();
  ExpectRoundTrip<v1::SubtaskStatus, SubtaskStatus>();
  ExpectRoundTrip<v1::VertexStatus, VertexStatus>();
  ExpectRoundTrip<v1::CheckpointSummary, CheckpointSummary>();
  ExpectRoundTrip<v1::JobStatus, JobStatus>();
  ExpectRoundTrip<v1::JobEvent, JobEvent>();
  ExpectRoundTrip<v1::WorkerStatus, WorkerStatus>();
  Covered().insert("weir.v1.Status");  // below

  // Parameters and lists of the calls, which have no struct; rpc_loopback_test sends them.
  for (const char* name :
       {"Outcome", "CheckJobResponse", "HelloRequest", "LeaveRequest", "JobRequest",
        "RemoveRequest", "ListJobsRequest", "ListJobsResponse", "GetJobResponse", "CancelRequest",
        "CancelResponse", "ListCheckpointsResponse", "GetEventsResponse", "ListWorkersRequest",
        "ListWorkersResponse"}) {
    Covered().insert(Concat("weir.v1.", name));
  }
  for (const auto* first :
       {v1::JobGraph::descriptor(), v1::LogEntry::descriptor(), v1::Status::descriptor(),
        v1::TriggerRequest::descriptor(), v1::JobStatus::descriptor()}) {
    for (int i = 0; i < first->file()->message_type_count(); ++i) {
      const std::string& name = first->file()->message_type(i)->full_name();
      EXPECT_TRUE(Covered().contains(name)) << name << " is tested nowhere";
    }
  }
}

TEST(ProtoConvertTest, StatusKeepsAllItsParts) {
  for (ErrorDomain domain : {ErrorDomain::kUser, ErrorDomain::kExternal, ErrorDomain::kInternal}) {
    for (bool retryable : {false, true}) {
      for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
        Status status(static_cast<StatusCode>(code), domain, "cannot read part-0.csv");
        status = status.WithRetry(retryable);
        v1::Status proto;
        ToProto(status, &proto);
        std::string name(ToString(status.code()));
        for (char& c : name) c = static_cast<char>(std::toupper(c));
        EXPECT_EQ(v1::Status::Code_Name(proto.code()), name);
        Status back = FromProto(proto);
        EXPECT_EQ(back.code(), status.code());
        EXPECT_EQ(back.domain(), domain);
        EXPECT_EQ(back.retryable(), retryable);
        EXPECT_EQ(back.message(), "cannot read part-0.csv");
      }
    }
  }
  v1::Status proto;
  ToProto(Status(), &proto);
  EXPECT_TRUE(FromProto(proto).ok());
}

TEST(ProtoConvertTest, StatusOfAnUnknownCodeIsAnError) {
  v1::Status proto;
  proto.set_code(static_cast<v1::Status::Code>(99));
  proto.set_message("from the future");
  EXPECT_EQ(FromProto(proto).code(), StatusCode::kInternal);
  EXPECT_EQ(FromProto(proto).message(), "from the future");
}

TEST(ProtoConvertTest, AbsentPartsStayAbsent) {
  JobVertex vertex;
  JobEdge edge;
  JobStatus status;
  v1::JobVertex vertex_proto;
  v1::JobEdge edge_proto;
  v1::JobStatus status_proto;
  ToProto(vertex, &vertex_proto);
  ToProto(edge, &edge_proto);
  ToProto(status, &status_proto);
  vertex.output_schema.emplace();
  edge.partitioning = Partitioning::kHash;
  status.failure.emplace();
  status.last_checkpoint.emplace();
  ASSERT_TRUE(FromProto(vertex_proto, &vertex).ok());
  ASSERT_TRUE(FromProto(edge_proto, &edge).ok());
  ASSERT_TRUE(FromProto(status_proto, &status).ok());
  EXPECT_FALSE(vertex.output_schema.has_value());
  EXPECT_FALSE(edge.partitioning.has_value());
  EXPECT_FALSE(status.failure.has_value());
  EXPECT_FALSE(status.last_checkpoint.has_value());
}

TEST(ProtoConvertTest, IntegersOfAConfigStayExact) {
  JobVertex vertex;
  vertex.config.Set("seed", ConfigValue(int64_t{9007199254740993}));  // 2^53 + 1
  vertex.config.Set("share", ConfigValue(0.1));
  v1::JobVertex proto;
  ToProto(vertex, &proto);
  JobVertex back;
  ASSERT_TRUE(FromProto(proto, &back).ok());
  EXPECT_EQ(back.config, vertex.config);
}

template <typename Domain, typename Proto>
void ExpectMalformed(const Proto& proto, const std::string& field) {
  Domain domain;
  Status status = FromProto(proto, &domain);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_FALSE(status.retryable());
  EXPECT_NE(status.message().find(field), std::string::npos) << status;
}

TEST(ProtoConvertTest, ValuesThatNoSenderWritesAreRefusedByName) {
  v1::Schema schema;
  schema.add_fields()->set_type(8);
  ExpectMalformed<Schema>(schema, "Field.type is 8");
  v1::JobVertex vertex;
  vertex.set_config_json("[1]");
  ExpectMalformed<JobVertex>(vertex, "config_json");
  vertex.set_config_json("{");
  ExpectMalformed<JobVertex>(vertex, "config_json");
  v1::JobEdge edge;
  edge.set_partitioning(static_cast<v1::Partitioning>(9));
  ExpectMalformed<JobEdge>(edge, "JobEdge.partitioning is 9");
  v1::StateHandle handle;
  ExpectMalformed<StateHandle>(handle, "StateHandle.kind is 0");
  handle.set_kind(v1::STATE_KIND_KEYED);
  handle.set_length(-1);
  ExpectMalformed<StateHandle>(handle, "StateHandle.length is -1");
  v1::LogEntry entry;
  ExpectMalformed<LogEntry>(entry, "LogEntry.kind is 0");
  v1::TaskReport report;
  ExpectMalformed<TaskReport>(report, "TaskReport.state is 0");
  v1::JobStatus status;
  status.set_state(static_cast<v1::JobState>(8));
  ExpectMalformed<JobStatus>(status, "JobStatus.state is 8");
}

// Expected values: Unicode 15, section 3.9, best practice for the replacement of each bad byte.
TEST(ProtoConvertTest, TextThatIsNoUtf8IsMadeReadable) {
  EXPECT_EQ(Utf8Text(""), "");
  EXPECT_EQ(Utf8Text("plain"), "plain");
  EXPECT_EQ(Utf8Text("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(Utf8Text("a\xFF"), "a\uFFFD");
  EXPECT_EQ(Utf8Text("\xC3"), "\uFFFD");                                // cut off
  EXPECT_EQ(Utf8Text("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(Utf8Text("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // surrogate
  EXPECT_EQ(Utf8Text("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(Utf8Text("\xE2\x82x"), "\uFFFD\uFFFDx");

  Failure failure;
  failure.message = "bad value 'M\xFCnchen'";
  v1::Failure proto;
  ToProto(failure, &proto);
  v1::Failure parsed;
  ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
  EXPECT_EQ(parsed.message(), "bad value 'M\uFFFDnchen'");
}

}  // namespace
}  // namespace weir
