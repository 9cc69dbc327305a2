#include "core/implementation.h"

namespace fulcrum {

namespace {

thread_local std::string note;

}  // namespace

void note_implementation(std::string_view name) {
    note.assign(name);
}

const std::string& noted_implementation() {
    return note;
}

void clear_implementation() {
    note.clear();
}

}  // namespace fulcrum
