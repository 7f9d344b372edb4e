# Third-party libraries, as Debian 12 packages them. scripts/setup installs the packages.

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)     # protobuf::libprotobuf, protobuf::protoc
find_package(gRPC CONFIG REQUIRED)  # gRPC::grpc++, gRPC::grpc_cpp_plugin
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(simdjson CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)

find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)    # PkgConfig::xxhash
pkg_check_modules(rdkafka REQUIRED IMPORTED_TARGET rdkafka)     # PkgConfig::rdkafka
pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET jemalloc)   # PkgConfig::jemalloc

if(WEIR_TESTS)
  find_package(GTest CONFIG REQUIRED)  # GTest::gtest_main, GTest::gmock
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
