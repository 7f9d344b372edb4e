# What `cmake --install` puts in place: the daemons and the CLI (installed by their own folders),
# libweir with the headers that a job library needs, and the CMake package `weir`.

if(NOT TARGET weir_shared)
  return()
endif()

include(CMakePackageConfigHelpers)

set_target_properties(weir_shared PROPERTIES EXPORT_NAME weir)
install(TARGETS weir_shared EXPORT weirTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir)
install(DIRECTORY common/base common/record common/graph common/operator
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir/common FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/generated/common/base/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir/common/base)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${package_dir})
configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
  DESTINATION ${package_dir})
