# Compiler and linker settings of every target: launcher, linker, warnings, sanitizers.

find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WEIR_CCACHE})
endif()

find_program(WEIR_MOLD mold)
if(WEIR_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra)
if(WEIR_WERROR)
  add_compile_options(-Werror)
endif()

if(WEIR_FUZZ)
  # Coverage that libFuzzer sees; its main is linked into the fuzzers alone.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(WEIR_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(WEIR_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT WEIR_SANITIZE STREQUAL "")
  message(FATAL_ERROR "WEIR_SANITIZE is '${WEIR_SANITIZE}'; valid: empty, address, thread")
endif()
