// Stands for the tests when their headers are compiled: see CMakeLists.txt.
int main() {}
