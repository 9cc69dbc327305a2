#include "core/tensor.h"

#include <fulcrum/fulcrum.h>

#include <cstdio>

int main() {
    std::printf("fulcrum %s (%s)\n", fulcrum::version().data(), fulcrum::build_options().data());
    return consumers_own_tensor() == 42 ? 0 : 1;
}
