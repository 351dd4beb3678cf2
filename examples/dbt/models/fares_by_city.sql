{{ config(materialized='table') }}

select city, count(*) as trips, sum(fare) as fares
from {{ source('lake', 'trips') }}
group by city
