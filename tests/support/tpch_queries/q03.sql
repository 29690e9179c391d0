-- The orders of a segment worth most that were not shipped by a day.
SELECT l_orderkey,
       sum(l_extendedprice * (1 - l_discount)) AS revenue,
       o_orderdate,
       o_shippriority
  FROM customer
  JOIN orders ON o_custkey = c_custkey
  JOIN lineitem ON l_orderkey = o_orderkey
 WHERE c_mktsegment = 'BUILDING'
   AND o_orderdate < DATE '1995-03-15'
   AND l_shipdate > DATE '1995-03-15'
 GROUP BY l_orderkey, o_orderdate, o_shippriority
 ORDER BY revenue DESC, o_orderdate, l_orderkey
 LIMIT 10
