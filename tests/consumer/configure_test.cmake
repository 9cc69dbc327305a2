# Configuration stops with the way out: a missing package with its apt name, a CUDA backend with the option to give.
include(${CMAKE_CURRENT_LIST_DIR}/Common.cmake)

# expect_refusal(<text> <cmake options>...): configuring fails and the output holds TEXT.
function(expect_refusal text)
    file(REMOVE_RECURSE ${WORK}/refused)
    execute_process(
        COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/refused -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
                ${ARGN}
        RESULT_VARIABLE result
        OUTPUT_VARIABLE output
        ERROR_VARIABLE output)
    if(result EQUAL 0)
        message(FATAL_ERROR "Configuring with ${ARGN} succeeded")
    endif()
    string(FIND "${output}" "${text}" position)
    if(position EQUAL -1)
        message(FATAL_ERROR "Configuring with ${ARGN} failed without saying \"${text}\":\n${output}")
    endif()
endfunction()

expect_refusal("apt-get install libfmt-dev" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
expect_refusal("apt-get install libdnnl-dev libeigen3-dev" -DCMAKE_DISABLE_FIND_PACKAGE_Dnnl=ON
               -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON)
expect_refusal("-DFULCRUM_CUDA=OFF" -DFULCRUM_CUDA=ON)
