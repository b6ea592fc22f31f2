# The blocks ```cpp of a page; compilers name the page's own lines.
/^```cpp/ { on = 1; printf "#line %d \"%s\"\n", NR + 1, FILENAME; next }
/^```/ { on = 0 }
on
