add_subdirectory(weft)
target_link_libraries(program PRIVATE weft::weft)
