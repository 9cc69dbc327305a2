# What the script tests of this folder share. They are run as
#   cmake -D BUILD=<fulcrum's build folder> -D SOURCE=<its source folder> -D WORK=<scratch folder>
#         -D GENERATOR=... -D COMPILER=... -D PREFIX=<where fulcrum's own packages are> -P SCRIPT

# run(<command>...): runs it; a failure ends the test with everything the command printed.
function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# build_and_run_consumer(<folder> <package folder> <cmake options>...): configures and builds the outside program, with
# fulcrum's package in PACKAGE FOLDER (may be empty), and runs it.
function(build_and_run_consumer folder package)
    list(PREPEND PREFIX ${package})
    list(JOIN PREFIX "\\;" prefix)  # stays one argument
    run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${folder} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
        "-DCMAKE_PREFIX_PATH=${prefix}" ${ARGN})
    run(${CMAKE_COMMAND} --build ${folder} --parallel 2)
    run(${folder}/consumer)
    message(STATUS "${output}")
    if(NOT output MATCHES "fulcrum [0-9]+\\.[0-9]+\\.[0-9]+ ")
        message(FATAL_ERROR "The consumer printed:\n${output}")
    endif()
endfunction()

# install_and_move(<build> <folder>): installs a build of fulcrum and moves the result to FOLDER, as a package would
# travel; none of its CMake files may still know the build or the source folder.
function(install_and_move build folder)
    file(REMOVE_RECURSE ${folder} ${folder}.first)
    run(${CMAKE_COMMAND} --install ${build} --prefix ${folder}.first)
    file(RENAME ${folder}.first ${folder})
    file(GLOB_RECURSE files ${folder}/*.cmake)
    if(NOT files)
        message(FATAL_ERROR "No CMake file was installed in ${folder}")
    endif()
    foreach(file IN LISTS files)
        file(READ ${file} text)
        foreach(path ${build} ${SOURCE} ${folder}.first)
            string(FIND "${text}" "${path}" position)
            if(NOT position EQUAL -1)
                message(FATAL_ERROR "${file} holds the path ${path}")
            endif()
        endforeach()
    endforeach()
endfunction()
