# Draws `folder`/performance-*.svg from the file `table` of bench_table.py. Its columns are group, size, side, round, samples, p50 and p99
# in microseconds, and seconds in all.

set terminal svg size 800,500 font "sans-serif,13" background "white"
set key outside right
set grid
set logscale xy

data(group, side) = \
    sprintf("< awk -F'\t' '$1==\"%s\" && $3==\"%s\" && $4==\"all\"' %s; echo NaN", group, side, table)
sides = "daemon:consumer daemon:queue raw:consumer raw:queue redis etcd:disk etcd:tmpfs"

set xlabel "clients, each with a lock of its own"
set output folder."/performance-throughput-clients.svg"
set title "Acquire and release: pairs per second"
set ylabel "pairs per second"
plot for [side in sides] data("clients", side) using 2:($5/$8) with linespoints title side

set output folder."/performance-latency-clients.svg"
set title "Acquire and release: p50 (line) and p99 (points) of a pair"
set ylabel "microseconds"
plot for [i=1:words(sides)] data("clients", word(sides, i)) using 2:6 with linespoints linecolor i title word(sides, i), \
    for [i=1:words(sides)] data("clients", word(sides, i)) using 2:7 with points linecolor i pointtype 1 notitle

set xlabel "slots"
sides = "daemon:consumer daemon:queue raw:consumer raw:queue"
set output folder."/performance-latency-slots.svg"
set title "Acquire of the one free slot, against one raw question for each slot: p50"
plot for [side in sides] data("free", side) using 2:6 with linespoints title side

set output folder."/performance-try-slots.svg"
set title "Try while all slots are busy, against one raw question for each slot: p50"
plot for [side in sides] data("try", side) using 2:6 with linespoints title side
