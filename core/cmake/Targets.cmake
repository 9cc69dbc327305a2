# What every target of fulcrum shares (warnings, sanitizers), the options of single rooms, and the public headers.

# fulcrum_defaults(<target>): our warnings, as errors where FULCRUM_WERROR says so, for this target only.
function(fulcrum_defaults target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic)
    if(FULCRUM_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()

if(FULCRUM_SANITIZE)
    list(JOIN FULCRUM_SANITIZE "," sanitizers)
    add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=${sanitizers})
    if("undefined" IN_LIST FULCRUM_SANITIZE)
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
    unset(sanitizers)
endif()

# fulcrum_room_options(): compile options that differ by room. Only the CPU kernels are compiled for this machine's
# instruction set, and without errno and traps of arithmetic, which keep square roots and selections out of vector
# code and which nobody reads; everything else stays portable and never fuses a multiply with an add, so that values computed on
# the host have the same bits whatever compiles them.
function(fulcrum_room_options)
    get_target_property(sources fulcrum SOURCES)
    foreach(source IN LISTS sources)
        if(source MATCHES "/kernels/cpu/")
            # Clang remarks on every loop that it is asked to and cannot vectorise, as those over exponentials in f64.
            set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno -fno-trapping-math
                                                          $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
            if(FULCRUM_NATIVE)
                set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -march=native)
            endif()
        else()
            set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off)
        endif()
    endforeach()
endfunction()

# fulcrum_public_headers(<room> <header>...): headers of this room that users may include, as <fulcrum/ROOM/HEADER>.
# Each is copied to include/fulcrum in the build folder with its includes of other rooms rewritten ("core/tensor.h"
# becomes "fulcrum/core/tensor.h"), so that no consumer needs this repository's root, with folders named core and data,
# on its include path. nn/fulcrum.h becomes <fulcrum/fulcrum.h>.
function(fulcrum_public_headers room)
    set(script ${PROJECT_SOURCE_DIR}/core/cmake/PublishHeader.cmake)
    set(published "")
    foreach(header IN LISTS ARGN)
        set(name fulcrum/${room}/${header})
        if(name STREQUAL "fulcrum/nn/fulcrum.h")
            set(name fulcrum/fulcrum.h)
        endif()
        set(source ${PROJECT_SOURCE_DIR}/${room}/${header})
        set(output ${PROJECT_BINARY_DIR}/include/${name})
        add_custom_command(
            OUTPUT ${output}
            COMMAND ${CMAKE_COMMAND} -D SOURCE=${source} -D OUTPUT=${output} -P ${script}
            DEPENDS ${source} ${script}
            COMMENT "Publish <${name}>"
            VERBATIM)
        list(APPEND published ${output})
        if(FULCRUM_INSTALL)
            cmake_path(GET name PARENT_PATH folder)
            install(FILES ${output} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
        endif()
        set_property(GLOBAL APPEND PROPERTY FULCRUM_PUBLIC_HEADERS ${name})
    endforeach()
    add_custom_target(fulcrum-${room}-headers DEPENDS ${published})
    add_dependencies(fulcrum fulcrum-${room}-headers)
endfunction()
