# The build at hand, installed and moved elsewhere, serves a program through find_package(fulcrum).
include(${CMAKE_CURRENT_LIST_DIR}/Common.cmake)

install_and_move(${BUILD} ${WORK}/package)
build_and_run_consumer(${WORK}/program ${WORK}/package -DCMAKE_BUILD_TYPE=Release)
