# The compression libraries as imported targets: damacy::zstd, damacy::lz4 and so on. The build uses this file, and so
# does the installed package, which looks for the libraries on the machine where damacy is linked, in CMake's search path
# (CMAKE_PREFIX_PATH). ZSTD_LIBRARY and so on override the files.
find_library(ZSTD_LIBRARY NAMES libzstd.a zstd)
find_library(LZ4_LIBRARY NAMES liblz4.a lz4)
find_library(ISAL_LIBRARY NAMES isal)
find_library(LZMA_LIBRARY NAMES liblzma.a lzma)
find_library(BZIP2_LIBRARY NAMES bz2)
mark_as_advanced(ZSTD_LIBRARY LZ4_LIBRARY ISAL_LIBRARY LZMA_LIBRARY BZIP2_LIBRARY)
foreach(damacy_library IN ITEMS zstd lz4 isal lzma bzip2)
  string(TOUPPER ${damacy_library}_LIBRARY damacy_file)
  if(${damacy_file} AND NOT TARGET damacy::${damacy_library})
    add_library(damacy::${damacy_library} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(damacy::${damacy_library} PROPERTIES IMPORTED_LOCATION "${${damacy_file}}")
  endif()
endforeach()
