# What `cmake --install` puts in place: the daemons and the CLI (installed by their own folders),
# libweir with the headers that a job library needs, and the CMake package `weir`.

if(NOT TARGET weir_shared)
  return()
endif()

include(CMakePackageConfigHelpers)

# `cmake --install BUILD --component development` is libweir and its headers alone.
set(component COMPONENT development)
set_target_properties(weir_shared PROPERTIES EXPORT_NAME weir)
install(TARGETS weir_shared EXPORT weirTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${component} NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/weir)
# <weir/weir.h>, and what it includes from below include/weir.
install(FILES common/weir/weir.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir ${component})
install(DIRECTORY common/base common/record common/graph common/operator
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir/common ${component} FILES_MATCHING PATTERN "*.h")
# The interfaces of sources and sinks name these.
install(FILES common/storage/file_system.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir/common/storage ${component})
install(FILES common/threading/executor.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir/common/threading ${component})
install(FILES ${PROJECT_BINARY_DIR}/generated/common/base/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir/common/base ${component})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${package_dir} ${component})
configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
  DESTINATION ${package_dir} ${component})
