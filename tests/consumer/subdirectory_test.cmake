# The source tree serves a program through add_subdirectory(); built shared and without optimisation, which is quick.
# What it built is then installed and serves the same program through find_package(fulcrum), as a shared library.
include(${CMAKE_CURRENT_LIST_DIR}/Common.cmake)

find_program(ccache ccache)
if(ccache)
    set(launcher -DCMAKE_CXX_COMPILER_LAUNCHER=${ccache})
endif()
build_and_run_consumer(
    ${WORK}/program ""
    -DFULCRUM_SOURCE=${SOURCE}
    -DBUILD_SHARED_LIBS=ON
    -DFULCRUM_INSTALL=ON
    -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_CXX_FLAGS_DEBUG=-O0
    ${launcher})
foreach(part tests examples bench)
    if(EXISTS ${WORK}/program/fulcrum/${part})
        message(FATAL_ERROR "A consumer's build holds fulcrum's ${part}")
    endif()
endforeach()

install_and_move(${WORK}/program ${WORK}/package)
build_and_run_consumer(${WORK}/program_of_package ${WORK}/package -DCMAKE_BUILD_TYPE=Release -DCHECK_HEADERS=OFF)
