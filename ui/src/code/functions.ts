/** Names of Spark's functions, those of `pyspark.sql.functions` of Spark 4.0. SQL has them by the same names. */
export const FUNCTIONS = `
  abs acos acosh add_months aes_decrypt aes_encrypt aggregate any_value approx_count_distinct approx_percentile array
  array_agg array_append array_compact array_contains array_distinct array_except array_insert array_intersect
  array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
  array_union arrays_overlap arrays_zip asc asc_nulls_first asc_nulls_last ascii asin asinh assert_true atan atan2
  atanh avg base64 bin bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_bit_position bitmap_bucket_number
  bitmap_construct_agg bitmap_count bitmap_or_agg bitwise_not bool_and bool_or broadcast bround btrim bucket
  call_function call_udf cardinality cbrt ceil ceiling char char_length character_length coalesce col collate
  collation collect_list collect_set concat concat_ws contains conv convert_timezone corr cos cosh cot count
  count_distinct count_if count_min_sketch covar_pop covar_samp crc32 create_map csc cume_dist curdate current_catalog
  current_database current_date current_schema current_timestamp current_timezone current_user date_add date_diff
  date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
  dayofweek dayofyear days decode degrees dense_rank desc desc_nulls_first desc_nulls_last e element_at elt encode
  endswith equal_null every exists exp explode explode_outer expm1 expr extract factorial filter find_in_set first
  first_value flatten floor forall format_number format_string from_csv from_json from_unixtime from_utc_timestamp
  from_xml get get_json_object getbit greatest grouping grouping_id hash hex histogram_numeric hll_sketch_agg
  hll_sketch_estimate hll_union hll_union_agg hour hours hypot ifnull ilike initcap inline inline_outer
  input_file_block_length input_file_block_start input_file_name instr is_valid_utf8 is_variant_null isnan isnotnull
  isnull java_method json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value lcase lead
  least left length levenshtein like listagg listagg_distinct lit ln localtimestamp locate log log10 log1p log2 lower
  lpad ltrim make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz
  make_valid_utf8 make_ym_interval map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries
  map_keys map_values map_zip_with mask max max_by md5 mean median min min_by minute mode monotonically_increasing_id
  month monthname months months_between named_struct nanvl negative next_day now nth_value ntile nullif nullifzero nvl
  nvl2 octet_length overlay parse_json parse_url percent_rank percentile percentile_approx pi pmod posexplode
  posexplode_outer position positive pow printf product quarter radians raise_error rand randn randstr rank reduce
  reflect regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
  regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse
  right rint rlike round row_number rpad rtrim schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg
  schema_of_xml sec second sentences sequence session_user session_window sha sha1 sha2 shiftleft shiftright
  shiftrightunsigned shuffle sign signum sin sinh size skewness slice some sort_array soundex spark_partition_id split
  split_part sqrt stack startswith std stddev stddev_pop stddev_samp str_to_map string_agg string_agg_distinct struct
  substr substring substring_index sum sum_distinct tan tanh timestamp_add timestamp_diff timestamp_micros
  timestamp_millis timestamp_seconds to_binary to_char to_csv to_date to_json to_number to_timestamp to_timestamp_ltz
  to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys
  transform_values translate trim trunc try_add try_aes_decrypt try_avg try_divide try_element_at try_make_interval
  try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url
  try_reflect try_subtract try_sum try_to_binary try_to_number try_to_timestamp try_url_decode try_validate_utf8
  try_variant_get typeof ucase udf udtf unbase64 unhex uniform unix_date unix_micros unix_millis unix_seconds
  unix_timestamp unwrap_udt upper url_decode url_encode user validate_utf8 var_pop var_samp variance variant_get
  version weekday weekofyear when width_bucket window window_time xpath xpath_boolean xpath_double xpath_float
  xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year years zeroifnull zip_with
`
  .trim()
  .split(/\s+/);

/** What DataFrames, columns, readers and writers are most often asked to do. */
export const METHODS = `
  agg alias cache collect columns count createOrReplaceTempView crossJoin describe distinct drop dropDuplicates dropna
  dtypes explain fillna filter first groupBy head intersect isEmpty join limit orderBy persist pivot printSchema
  randomSplit repartition sample schema select selectExpr show sort summary tail take toDF toPandas transform union
  unionByName unpersist where withColumn withColumnRenamed withColumns write writeStream createDataFrame range read
  readStream sql table catalog conf udf newSession mode format option options save saveAsTable insertInto parquet csv
  json orc text load partitionBy over between isin isNull isNotNull cast startswith endswith contains like rlike asc
  desc otherwise getField getItem
`
  .trim()
  .split(/\s+/);

export const GLOBALS = ["spark", "sc", "dbutils", "display", "displayHTML", "sql", "table", "udf", "getArgument"];

/** Words of Spark's SQL. */
export const WORDS =
  "add all and any as asc between both by case cast check column comment commit constraint create current current_date " +
  "current_timestamp current_user cursor default delete desc distinct drop else end escape except execute exists " +
  "fetch filter following for foreign from full function grant group grouping having if in inner insert intersect into " +
  "is join key leading left like match matched merge minus natural next no not null of offset on only or order outer " +
  "over overlaps preceding primary references revoke right rollback rollup row rows select session set some table then " +
  "to trailing trigger true false union unique unknown update user values when where with " +
  "alter analyze anti bucketed buckets cache catalog catalogs clear cluster columns compute cross cube database databases " +
  "dbproperties describe distribute exchange explain extended external fields first format formatted functions global " +
  "ignore ilike inpath jar lateral lazy limit list local location msck namespace namespaces nulls optimize options " +
  "overwrite partition partitioned partitions pivot properties qualify recover refresh regexp rename replace reset rlike " +
  "schema schemas semi show skewed sort stored tables tablesample tblproperties temp temporary terminated transform " +
  "truncate unbounded uncache unpivot unset use using vacuum view views volume volumes window";

export const TYPES =
  "array bigint binary boolean byte char date decimal double float int integer interval long map short smallint string " +
  "struct timestamp timestamp_ltz timestamp_ntz tinyint varchar variant void";
