// Reads of host memory in place, in requests of some bytes: lanes of a warp read adjacent words of a line of 128 bytes.
typedef long long Count;

// `words` adjacent lanes read the words of one line, from its first one on; a warp reads 32 / words lines at once.
extern "C" __global__ void read_in_place(const unsigned* from, Count lines, unsigned words, unsigned* sum)
{
    const unsigned lane = threadIdx.x % 32, lines_of_warp = 32 / words;
    const Count warp = ((Count)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const Count warps = (Count)gridDim.x * blockDim.x / 32;
    unsigned mine = 0;
    for (Count base = warp * lines_of_warp; base < lines; base += warps * lines_of_warp) {
        const Count line = base + lane / words;
        if (lane < lines_of_warp * words && line < lines) mine += from[32 * line + lane % words];
    }
    if (mine == 0xA5A5A5A5u) *sum = mine;  // never: the values are 0
}
