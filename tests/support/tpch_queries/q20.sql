-- Suppliers of a nation with more in stock than half of what a year's orders took.
SELECT s_name, s_address
  FROM supplier
  JOIN nation ON n_nationkey = s_nationkey
 WHERE n_name = 'CANADA'
   AND s_suppkey IN (
         SELECT ps_suppkey
           FROM partsupp
          WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
            AND ps_availqty > (
                  SELECT 0.5 * sum(l_quantity)
                    FROM lineitem
                   WHERE l_partkey = ps_partkey
                     AND l_suppkey = ps_suppkey
                     AND l_shipdate >= DATE '1994-01-01'
                     AND l_shipdate < DATE '1994-01-01' + INTERVAL 1 YEAR))
 ORDER BY s_name
