# cmake -D SOURCE=... -D OUTPUT=... -P PublishHeader.cmake
# Copies one public header, with includes of fulcrum's own rooms written as a user would write them.

file(READ "${SOURCE}" text)
if(text MATCHES "#include \"((kernels|tests|examples|bench)/[^\"]*)\"")
    message(FATAL_ERROR "${SOURCE} is a public header but includes the private \"${CMAKE_MATCH_1}\"")
endif()
string(REGEX REPLACE "(#include )\"((core|nn|data)/[^\"]*)\"" "\\1\"fulcrum/\\2\"" text "${text}")
file(WRITE "${OUTPUT}" "${text}")
