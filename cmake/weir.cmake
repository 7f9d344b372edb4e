# The functions that the CMakeLists.txt of each folder uses.
#
#   weir_library(name [PURE] SOURCES file... [DEPS target...] [PRIVATE_DEPS target...])
#   weir_test(name SOURCES file... [DEPS target...] [LABELS label...] [TIMEOUT seconds]
#             [ARGUMENTS argument...])
#   weir_python_test(name SCRIPT file [LABELS label...] [TIMEOUT seconds] [ARGUMENTS argument...])
#   weir_needs_kafka(test [PROXY] [KILLS_BROKER])
#   weir_daemon(name SOURCES file... DEPS target...)
#   weir_link_test(library)
#   weir_add_folder(folder)

set_property(GLOBAL PROPERTY WEIR_LIBRARIES "")

# For files that no row passes and that are slow to optimise: a command line, protobuf's messages.
set(WEIR_COLD_OPTIONS $<$<CONFIG:Release>:-O1>)

# The headers of the standard library that most files of libraries include: a third of a second of
# compile time in each. Sanitizer builds go without, so that a file which does not include what it
# uses is found out.
if(WEIR_SANITIZE STREQUAL "")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/library_headers/empty.cc CONTENT "")
  add_library(weir_library_headers STATIC ${CMAKE_BINARY_DIR}/library_headers/empty.cc)
  target_precompile_headers(weir_library_headers PRIVATE
    <algorithm> <atomic> <chrono> <cstdint> <cstring> <deque> <functional> <map> <memory> <mutex>
    <optional> <set> <string> <string_view> <thread> <utility> <vector>)
endif()

if(WEIR_TESTS)
  # Everything that a ThreadSanitizer build compiles: the tests labelled `tsan` and no gRPC.
  add_custom_target(tsan_tests)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/link_tests/main.cc
       CONTENT "int main() { return 0; }\n")
  add_library(weir_link_test_main OBJECT ${CMAKE_BINARY_DIR}/link_tests/main.cc)

  # What is under test is optimised; the tests' own code is compiled once and run once.
  set(WEIR_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)
  # GoogleTest is a second of compile time in each of a hundred files.
  # An executable as the tests are, for code of libraries is compiled in another way.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers/empty.cc CONTENT "")
  add_executable(weir_test_headers ${CMAKE_BINARY_DIR}/test_headers/empty.cc)
  target_compile_options(weir_test_headers PRIVATE ${WEIR_TEST_OPTIONS})
  target_link_libraries(weir_test_headers PRIVATE GTest::gtest_main GTest::gmock)
  target_precompile_headers(weir_test_headers PRIVATE
    <gtest/gtest.h> <gmock/gmock.h> <cstdint> <cstring> <deque> <functional> <map> <memory>
    <random> <string> <string_view> <vector>)
endif()

# A static, position independent library. Includes are written from the repository root. One
# without a .cc file is an interface library. Each library gets its link test. PURE promises that
# the library and all it links to know no gRPC, protobuf, RocksDB and Kafka.
function(weir_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PURE" "" "SOURCES;DEPS;PRIVATE_DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weir_library(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(compiled ${arg_SOURCES})
  list(FILTER compiled EXCLUDE REGEX "\\.h$")
  if(compiled)
    set(scope PUBLIC)
    add_library(${name} STATIC ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_PRIVATE_DEPS})
    if(TARGET weir_library_headers)
      target_precompile_headers(${name} REUSE_FROM weir_library_headers)
    endif()
  else()
    set(scope INTERFACE)
    add_library(${name} INTERFACE)
    if(arg_PRIVATE_DEPS)
      message(FATAL_ERROR "weir_library(${name}): headers alone have no PRIVATE_DEPS")
    endif()
  endif()
  target_link_libraries(${name} ${scope} ${arg_DEPS})
  target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  set_property(GLOBAL APPEND PROPERTY WEIR_LIBRARIES ${name})
  set_property(TARGET ${name} PROPERTY WEIR_PURE ${arg_PURE})
  weir_link_test(${name})
endfunction()

# An executable that holds the whole of one library and what that library declares: a dependency
# that is used and not declared fails to link here, although it may link in a daemon.
function(weir_link_test library)
  get_target_property(type ${library} TYPE)
  if(NOT WEIR_TESTS OR TARGET link_test_${library} OR NOT type STREQUAL "STATIC_LIBRARY")
    return()
  endif()
  add_executable(link_test_${library})
  target_link_libraries(link_test_${library} PRIVATE
    weir_link_test_main $<LINK_LIBRARY:WHOLE_ARCHIVE,${library}>)
  if(NOT library MATCHES "^weir_kill_point_")
    # The executable chooses what a kill point does.
    target_link_libraries(link_test_${library} PRIVATE weir_kill_point_off)
  endif()
  set_target_properties(link_test_${library} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/link_tests LINKER_LANGUAGE CXX)
endfunction()

function(weir_register_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS quick)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(supp ${PROJECT_SOURCE_DIR}/cmake/tsan.supp)
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}"
    TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "WEIR_SOURCE_DIR=${PROJECT_SOURCE_DIR};WEIR_BIN_DIR=${CMAKE_BINARY_DIR}/bin;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=suppressions=${supp} halt_on_error=1")
endfunction()

# A GoogleTest executable and one ctest entry of the same name. Labels: quick (the default) runs in
# scripts/test, long only in scripts/test --all, tsan also under ThreadSanitizer. Tests find the
# source tree and the daemons in the environment: WEIR_SOURCE_DIR, WEIR_BIN_DIR.
function(weir_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;DEPS;LABELS;ARGUMENTS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weir_test(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT WEIR_TESTS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gtest_main GTest::gmock)
  target_compile_options(${name} PRIVATE ${WEIR_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM weir_test_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test_bin)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGUMENTS})
  weir_register_test(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
endfunction()

# A Python unittest file as one ctest entry; ARGUMENTS name the classes to run, all without.
function(weir_python_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SCRIPT;TIMEOUT" "LABELS;ARGUMENTS")
  if(NOT WEIR_TESTS)
    return()
  endif()
  add_test(NAME ${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGUMENTS})
  weir_register_test(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
endfunction()

# Gives a test, C++ or Python, the Kafka broker that all such tests of a ctest run share: it runs
# between kafka_broker_start and kafka_broker_stop (tests/support/kafka) and finds the broker by
# WEIR_KAFKA_DIR: that folder's file `bootstrap` has host:port, `proxied` the ports B and C of the
# second listener. PROXY: it listens on C; one such test at a time. KILLS_BROKER: no other test runs
# meanwhile. A test that needs settings of its own starts its own broker and needs none of this.
set(WEIR_KAFKA_DIR ${CMAKE_BINARY_DIR}/kafka_broker)
function(weir_needs_kafka test)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROXY;KILLS_BROKER" "" "")
  if(NOT WEIR_TESTS)
    return()
  endif()
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "WEIR_KAFKA_DIR=${WEIR_KAFKA_DIR}")
  set_property(TEST ${test} APPEND PROPERTY FIXTURES_REQUIRED kafka_broker)
  if(arg_PROXY)
    set_property(TEST ${test} APPEND PROPERTY RESOURCE_LOCK kafka_proxy)
  endif()
  if(arg_KILLS_BROKER)
    set_property(TEST ${test} PROPERTY RUN_SERIAL TRUE)
  endif()
endfunction()

# A daemon: `name` as released and, for tests, `name`-kill in test_bin, the same objects with kill
# points that work. libweir comes first, so that what it shares with job libraries exists once.
function(weir_daemon name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_library(${name}-main OBJECT ${arg_SOURCES})
  target_link_libraries(${name}-main PRIVATE weir_shared ${arg_DEPS})
  set(kill_points_of_${name} weir_kill_point_off)
  set(executables ${name})
  if(WEIR_TESTS)
    set(kill_points_of_${name}-kill weir_kill_point_on)
    list(APPEND executables ${name}-kill)
  endif()
  foreach(executable IN LISTS executables)
    add_executable(${executable} $<TARGET_OBJECTS:${name}-main>
      $<TARGET_OBJECTS:${kill_points_of_${executable}}>)
    target_link_libraries(${executable} PRIVATE weir_shared ${arg_DEPS})
    if(WEIR_SANITIZE STREQUAL "")
      target_link_libraries(${executable} PRIVATE PkgConfig::jemalloc)
    endif()
  endforeach()
  if(WEIR_TESTS)
    set_target_properties(${name}-kill PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test_bin)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# Adds a folder that has a CMakeLists.txt; of one that has none, the nearest folders below it that do.
function(weir_add_folder folder)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${folder})
    return()
  endif()
  file(GLOB children RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${folder}/*)
  foreach(child IN LISTS children)
    if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${child})
      weir_add_folder(${child})
    endif()
  endforeach()
endfunction()

# Everything that `target` links to, directly or not, its own libraries' private parts included.
function(weir_link_closure target result)
  set(seen "")
  set(queue ${target})
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(item IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${item})
    if(NOT TARGET ${item})
      continue()
    endif()
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(links ${item} ${property})
      if(links)
        list(APPEND queue ${links})
      endif()
    endforeach()
  endwhile()
  set(${result} ${seen} PARENT_SCOPE)
endfunction()

function(weir_check_libraries)
  get_property(libraries GLOBAL PROPERTY WEIR_LIBRARIES)
  foreach(library IN LISTS libraries)
    get_target_property(pure ${library} WEIR_PURE)
    weir_link_closure(${library} closure)
    foreach(item IN LISTS closure)
      if(pure AND item MATCHES "gRPC|protobuf|RocksDB|rdkafka|proto$")
        message(SEND_ERROR "${library} is PURE and links to ${item}")
        break()
      endif()
    endforeach()
    get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
    foreach(item IN LISTS links)
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
      if(item MATCHES "^[a-z_]+$" AND NOT TARGET ${item} AND NOT item MATCHES "^(dl|m|rt|.*-NOTFOUND)$")
        message(WARNING "${library} links to ${item}, which is no target")
      endif()
    endforeach()
  endforeach()
endfunction()
