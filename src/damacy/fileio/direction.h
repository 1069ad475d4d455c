// Which way a request moves bytes.
#pragma once

namespace damacy {

enum class Direction { read, write };

}  // namespace damacy
