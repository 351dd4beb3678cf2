{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['id', 'city'],
    merge_clauses={
        'when_matched': [
            {'action': 'delete', 'condition': "DBT_INTERNAL_SOURCE.op = 'd'"},
            {'action': 'update', 'mode': 'by_name'},
        ],
        'when_not_matched': [
            {'action': 'insert', 'mode': 'by_name', 'condition': "DBT_INTERNAL_SOURCE.op <> 'd'"},
        ],
    },
) }}

select
    coalesce(after.id, before.id) as id,
    coalesce(after.city, before.city) as city,
    after.fare as fare,
    op,
    _hudi_next_after
from {{ source('lake', 'trips_changes') }}
where _hudi_after = '{{ hudi_after() }}'
qualify row_number() over (partition by id, city order by ts_ms desc, op = 'd') = 1
