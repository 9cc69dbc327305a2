#pragma once

/// Everything that fulcrum offers, in one include: `#include <fulcrum/fulcrum.h>`.

#include "core/version.h"
