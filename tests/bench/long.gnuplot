# Draws `folder`/performance-long.svg from the files `tables` of bench_long.py, one line for each of the versions `names`. The
# first node of each is drawn.

set terminal svg size 900,700 font "sans-serif,13" background "white"
set output folder."/performance-long.svg"
set grid
set key outside right
set xlabel "renewals of a hold"
set yrange [0:]
set multiplot layout 2,2
node(table) = "< awk -F'\t' '$3==\"n1\"' ".table

set title "Raft logs on disk"
set ylabel "MB"
plot for [i=1:words(tables)] node(word(tables, i)) using ($2/300):($9/1e6) with lines title word(names, i)
set title "Erlang's memory: all, and tables of ETS (dots)"
plot for [i=1:words(tables)] node(word(tables, i)) using ($2/300):($5/1e6) with lines linecolor i title word(names, i), \
    for [i=1:words(tables)] node(word(tables, i)) using ($2/300):($8/1e6) with points linecolor i pointtype 7 pointsize 0.3 notitle
set title "RSS of RabbitMQ"
plot for [i=1:words(tables)] node(word(tables, i)) using ($2/300):($4/1e6) with lines title word(names, i)
set title "RSS of the daemon"
plot for [i=1:words(tables)] node(word(tables, i)) using ($2/300):($13/1e6) with lines title word(names, i)
unset multiplot
