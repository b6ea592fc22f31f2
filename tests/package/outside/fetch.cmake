include(FetchContent)
FetchContent_Declare(weft URL https://example.org/weft-0.1.0.tar.gz)   # or GIT_REPOSITORY and GIT_TAG
FetchContent_MakeAvailable(weft)
target_link_libraries(program PRIVATE weft::weft)
