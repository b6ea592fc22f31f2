find_package(weft REQUIRED)
target_link_libraries(program PRIVATE weft::weft)
