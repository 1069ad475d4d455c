// Reads and writes of files, from and to host memory and device memory.
//
//   File             an open file                                   fileio/file.h
//   begin_request    reads or writes it; gives an Operation         fileio/file_requests.h
//   Operation        a request under way: wait, counts, errors      fileio/operation.h
//   FileMemory       host memory, or memory of a Device             fileio/file_memory.h, device/bind.h
//   io_settings      threads, task size, engine; of the process     fileio/io_settings.h
//   FileError        what failed, with the file and errno           fileio/file_error.h
#pragma once

#include "damacy/core/error.h"
#include "damacy/device/bind.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_error.h"
#include "damacy/fileio/file_memory.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/io_settings.h"
#include "damacy/fileio/operation.h"
