# install(): the library, its public headers (listed by the rooms), and the package files for find_package(fulcrum).

include(CMakePackageConfigHelpers)
set(fulcrum_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fulcrum)

install(
    TARGETS fulcrum
    EXPORT fulcrumTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT fulcrumTargets NAMESPACE fulcrum:: DESTINATION ${fulcrum_package_dir})

if(BUILD_SHARED_LIBS)
    set(FULCRUM_IS_SHARED ON)
else()
    set(FULCRUM_IS_SHARED OFF)
endif()
# A static library holds calls for the oneDNN it was compiled with: the same major version, no older minor one.
math(EXPR FULCRUM_DNNL_NEXT_MAJOR "${Dnnl_VERSION_MAJOR} + 1")
configure_package_config_file(
    ${CMAKE_CURRENT_LIST_DIR}/fulcrumConfig.cmake.in ${PROJECT_BINARY_DIR}/package/fulcrumConfig.cmake
    INSTALL_DESTINATION ${fulcrum_package_dir}
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/package/fulcrumConfigVersion.cmake
    VERSION ${PROJECT_VERSION}
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/fulcrumConfig.cmake
              ${PROJECT_BINARY_DIR}/package/fulcrumConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/kernels/cpu/cmake/FindDnnl.cmake
        DESTINATION ${fulcrum_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
