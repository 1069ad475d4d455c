// Speed: decoded GB/s over contents, frame sizes and numbers of frames, ours, nvCOMP and the libraries on all cores.
#pragma once

#include <string>

#include "crew.h"
#include "nvcomp.h"

namespace damacy::bench {

struct TableOptions {
  std::string only;       // part of a row's name; empty: all
  std::size_t count = 0;  // frames a row; 0: the usual numbers
  bool quick = false;     // the rows of the issue alone
  bool stages = true;
  bool lz4 = true;
};

// One JSON line a row. False when a byte was wrong.
bool run_table(const TableOptions& options, Nvcomp& nvcomp, Crew& crew);

}  // namespace damacy::bench
