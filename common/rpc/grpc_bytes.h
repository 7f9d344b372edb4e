#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>

namespace weir {

// Takes the bytes over without a copy.
grpc::ByteBuffer ToByteBuffer(std::string bytes);
std::string ToString(const grpc::ByteBuffer& buffer);

// gRPC reports on stderr what its callers report better; from here on it says so at debug level in
// the log, unless GRPC_VERBOSITY is set.
void SilenceGrpc();

}  // namespace weir
