#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/base/concat.h"
#include "common/base/status.h"
#include "common/rpc/proto_convert.h"
#include "common/rpc/rpc_client.h"
#include "common/rpc/rpc_server.h"
#include "common/threading/executor.h"

// Calls with protos on both ends. A response carries the receiver's Status in its field `status`.
// Included by common/rpc and the server folders alone.
namespace weir {

// Calls `method`; `done` gets the response, or the error of the transport or the receiver. On the
// client's thread.
template <typename Response, typename Request>
void CallProto(RpcClient& client, const std::string& address, const std::string& method,
               const Request& request, int64_t timeout_us,
               std::function<void(StatusOr<Response>)> done) {
  client.Call(
      address, method, request.SerializeAsString(), timeout_us,
      [address, done = std::move(done)](StatusOr<std::string> bytes) {
        if (!bytes.ok()) return done(bytes.status());
        Response response;
        if (!response.ParseFromString(*bytes)) {
          return done(MalformedError(Response::descriptor()->name(), Concat("from ", address)));
        }
        if (Status status = FromProto(response.status()); !status.ok()) {
          return done(std::move(status));
        }
        done(std::move(response));
      });
}

template <typename Response>
void SendError(const RpcServer::Reply& reply, const Status& status) {
  Response response;
  ToProto(status, response.mutable_status());
  reply(response.SerializeAsString());
}

// A server's method: turns the request into its domain form on gRPC's thread and runs `handle` with
// it on `executor`. `respond` may be called there once, sooner or later, with the response or the
// error that stands in its place.
template <typename ProtoRequest, typename Request, typename Response>
RpcServer::Method MakeMethod(
    Executor& executor,
    std::function<void(Request, std::function<void(StatusOr<Response>)>)> handle) {
  return [&executor, handle = std::move(handle)](std::string bytes, RpcServer::Reply reply) {
    ProtoRequest proto;
    Request request;
    Status status = proto.ParseFromString(bytes)
                        ? FromProto(std::move(proto), &request)
                        : MalformedError(ProtoRequest::descriptor()->name(), "is no such message");
    if (!status.ok()) return SendError<Response>(reply, status);
    bytes = std::string();
    executor.Post([handle, request = std::move(request), reply = std::move(reply)]() mutable {
      handle(std::move(request), [reply = std::move(reply)](StatusOr<Response> response) {
        if (!response.ok()) return SendError<Response>(reply, response.status());
        reply(response->SerializeAsString());
      });
    });
  };
}

}  // namespace weir
