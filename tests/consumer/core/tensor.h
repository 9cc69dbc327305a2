#pragma once

/// A header of the consumer's own, named as one of fulcrum's.
inline int consumers_own_tensor() {
    return 42;
}
