// Speed: decoded GB/s by content, frame size and number of frames, of our decoder, of nvCOMP, and of the libraries on
// all cores.
#pragma once

#include <string>

#include "crew.h"
#include "nvcomp.h"

namespace damacy::bench {

struct TableOptions {
  std::string only;       // part of a row's name; empty: all
  std::size_t count = 0;  // frames per row; 0: the usual numbers
  bool quick = false;     // only the most important rows
  bool stages = true;
  bool lz4 = true;
};

// Prints one JSON line per row. False if a byte was wrong.
bool run_table(const TableOptions& options, Nvcomp& nvcomp, Crew& crew);

}  // namespace damacy::bench
