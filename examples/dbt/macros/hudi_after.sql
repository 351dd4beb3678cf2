{# Where the range of an incremental model begins: where that of its newest rows has ended, or before all commits. #}
{% macro hudi_after() %}
  {% if is_incremental() %}
    {% set ended = run_query('select max(_hudi_next_after) from ' ~ this).columns[0].values()[0] %}
  {% endif %}
  {{ return(ended or 'earliest') }}
{% endmacro %}
