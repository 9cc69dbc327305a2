# Finds oneDNN by its header and its library; gives the target Dnnl::Dnnl, Dnnl_FOUND, Dnnl_VERSION and
# Dnnl_CPU_RUNTIME (OMP, TBB, SEQ, ...). A library whose CPU engine needs SYCL is refused.
#
# Not every distribution of oneDNN brings CMake files (the Python wheels have none), and those of Debian ask for the
# OpenCL headers, which fulcrum has no use for; header and library are always there.

find_path(Dnnl_INCLUDE_DIR NAMES oneapi/dnnl/dnnl_config.h)
find_library(Dnnl_LIBRARY NAMES dnnl)
mark_as_advanced(Dnnl_INCLUDE_DIR Dnnl_LIBRARY)

unset(Dnnl_VERSION)
unset(Dnnl_CPU_RUNTIME)
if(Dnnl_INCLUDE_DIR)
    file(STRINGS "${Dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" Dnnl_lines REGEX "#define DNNL_VERSION_[MP]")
    foreach(Dnnl_part MAJOR MINOR PATCH)
        if(Dnnl_lines MATCHES "DNNL_VERSION_${Dnnl_part} +([0-9]+)")
            set(Dnnl_VERSION_${Dnnl_part} ${CMAKE_MATCH_1})
        endif()
    endforeach()
    set(Dnnl_VERSION "${Dnnl_VERSION_MAJOR}.${Dnnl_VERSION_MINOR}.${Dnnl_VERSION_PATCH}")
    file(STRINGS "${Dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h" Dnnl_lines REGEX "#define DNNL_CPU_RUNTIME ")
    if(Dnnl_lines MATCHES "DNNL_RUNTIME_([A-Z]+)")
        set(Dnnl_CPU_RUNTIME ${CMAKE_MATCH_1})
    endif()
    if(Dnnl_CPU_RUNTIME STREQUAL "SYCL" OR Dnnl_CPU_RUNTIME STREQUAL "DPCPP")
        message(NOTICE "oneDNN: ${Dnnl_LIBRARY} is a SYCL build; one with an OpenMP CPU runtime is needed")
        set(Dnnl_usable FALSE)
    else()
        set(Dnnl_usable TRUE)
    endif()
    unset(Dnnl_lines)
    unset(Dnnl_part)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
    Dnnl
    REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR Dnnl_usable
    VERSION_VAR Dnnl_VERSION
    HANDLE_VERSION_RANGE)

if(Dnnl_FOUND AND NOT TARGET Dnnl::Dnnl)
    add_library(Dnnl::Dnnl UNKNOWN IMPORTED)
    set_target_properties(Dnnl::Dnnl PROPERTIES IMPORTED_LOCATION "${Dnnl_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                                    "${Dnnl_INCLUDE_DIR}")
endif()
