# Finds every package that fulcrum is built from. All that are missing are reported at once, with the command that
# installs them on Debian and Ubuntu.

list(PREPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/kernels/cpu/cmake)
set(fulcrum_package_rows "")
set(fulcrum_missing "")

# fulcrum_package(<name> <apt packages> <version variable> <found>) notes a row of the summary.
function(fulcrum_package name apt version found)
    if(found)
        set(state "found ${version}")
    else()
        set(state "MISSING   (${apt})")
        list(APPEND fulcrum_missing ${apt})
    endif()
    string(SUBSTRING "${name}                " 0 16 name)
    list(APPEND fulcrum_package_rows "${name}${state}")
    set(fulcrum_package_rows "${fulcrum_package_rows}" PARENT_SCOPE)
    set(fulcrum_missing "${fulcrum_missing}" PARENT_SCOPE)
endfunction()

set(CMAKE_THREAD_PREFER_PTHREAD ON)
set(THREADS_PREFER_PTHREAD_FLAG OFF)
find_package(Threads QUIET)
fulcrum_package(Threads libc6-dev "" "${Threads_FOUND}")

find_package(OpenMP QUIET COMPONENTS CXX)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(apt libomp-dev)
else()
    set(apt g++)
endif()
fulcrum_package(OpenMP ${apt} "${OpenMP_CXX_VERSION}" "${OpenMP_CXX_FOUND}")

find_package(Dnnl 2.6 QUIET MODULE)
fulcrum_package(oneDNN libdnnl-dev "${Dnnl_VERSION}" "${Dnnl_FOUND}")

find_package(Eigen3 3.4 QUIET NO_MODULE)
fulcrum_package(Eigen libeigen3-dev "${Eigen3_VERSION}" "${Eigen3_FOUND}")

find_package(fmt QUIET CONFIG)
fulcrum_package(fmt libfmt-dev "${fmt_VERSION}" "${fmt_FOUND}")

find_package(nlohmann_json 3.9 QUIET CONFIG)
fulcrum_package(nlohmann-json nlohmann-json3-dev "${nlohmann_json_VERSION}" "${nlohmann_json_FOUND}")

if(FULCRUM_BUILD_EXAMPLES OR FULCRUM_BUILD_BENCH)
    find_package(CLI11 QUIET CONFIG)
    fulcrum_package(CLI11 libcli11-dev "${CLI11_VERSION}" "${CLI11_FOUND}")
endif()
if(FULCRUM_BUILD_TESTS)
    find_package(Catch2 QUIET CONFIG)
    if(Catch2_VERSION VERSION_LESS 2.13)
        set(Catch2_FOUND FALSE)
    endif()
    fulcrum_package(Catch2 catch2 "${Catch2_VERSION}" "${Catch2_FOUND}")
endif()

if(fulcrum_missing)
    list(REMOVE_DUPLICATES fulcrum_missing)
    list(JOIN fulcrum_package_rows "\n  " rows)
    list(JOIN fulcrum_missing " " apt)
    message(NOTICE "fulcrum needs these packages:\n  ${rows}")
    message(FATAL_ERROR "Packages are missing. On Debian and Ubuntu install them with\n"
                        "    apt-get install ${apt}\n"
                        "A package elsewhere on the disk is found through -DCMAKE_PREFIX_PATH=FOLDER.")
endif()
unset(apt)

# Prints what was found and how this build is set up; called at the end of configuration.
function(fulcrum_print_summary)
    get_target_property(kind fulcrum TYPE)
    string(REPLACE "_LIBRARY" "" kind ${kind})
    string(TOLOWER ${kind} kind)
    set(parts library)
    foreach(part TESTS EXAMPLES BENCH FUZZERS)
        if(FULCRUM_BUILD_${part})
            string(TOLOWER ${part} part)
            list(APPEND parts ${part})
        endif()
    endforeach()
    list(JOIN parts ", " parts)
    list(JOIN FULCRUM_SANITIZE " + " sanitize)
    if(NOT sanitize)
        set(sanitize none)
    endif()
    list(JOIN fulcrum_package_rows "\n  " rows)
    message(
        STATUS
            "fulcrum ${PROJECT_VERSION}\n"
            "  ${rows}\n"
            "  compiler        ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}\n"
            "  builds          ${parts} (${kind})\n"
            "  native kernels  ${FULCRUM_NATIVE}\n"
            "  CUDA            ${FULCRUM_CUDA}\n"
            "  sanitizers      ${sanitize}")
endfunction()
