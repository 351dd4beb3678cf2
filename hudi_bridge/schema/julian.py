"""Converts dates and times of the hybrid calendar, which is Julian up to 1582, to the proleptic Gregorian calendar.

Spark up to 2.4 writes hybrid dates, and later releases with a setting. A date or a local time keeps its year, month and
day, so that its number changes. A date that only the Julian calendar has, such as 1500-02-29, becomes the next day.
Java's old classes for dates have one offset for a time zone before 1900, its new ones the local times of the place:
Spark's table of the differences is part of this module.

Source: ``RebaseDateTime`` and ``julian-gregorian-rebase-micros.json`` of Spark.
"""

import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# The offset, then each shift and its switch.
_ZONES = """\
0 968 -2208988800: Africa/Abidjan Africa/Accra Africa/Bamako Africa/Banjul Africa/Conakry Africa/Dakar Africa/Freetown
0 968 -2208988800: Africa/Lome Africa/Nouakchott Africa/Ouagadougou Africa/Timbuktu Atlantic/Reykjavik
0 968 -2208988800: Atlantic/St_Helena Iceland
10800 1964 -2208988800: Africa/Addis_Ababa Africa/Asmara Africa/Asmera Africa/Dar_es_Salaam Africa/Djibouti
10800 1964 -2208988800: Africa/Kampala Africa/Mogadishu Africa/Nairobi Indian/Antananarivo Indian/Comoro Indian/Mayotte
3600 2868 -2486595771 3039 -2208988800: Africa/Algiers
3600 2785 -2208988800: Africa/Bangui Africa/Brazzaville Africa/Douala Africa/Kinshasa Africa/Lagos Africa/Libreville
3600 2785 -2208988800: Africa/Luanda Africa/Malabo Africa/Niamey Africa/Porto-Novo
0 3740 -2208988800: Africa/Bissau
7200 -620 -2208988800: Africa/Blantyre Africa/Bujumbura Africa/Gaborone Africa/Harare Africa/Kigali Africa/Lubumbashi
7200 -620 -2208988800: Africa/Lusaka Africa/Maputo
7200 -309 -2208988800: Africa/Cairo Egypt
0 1820 -2208988800: Africa/Casablanca
3600 4876 -2208988800: Africa/Ceuta
0 3168 -2208988800: Africa/El_Aaiun
7200 480 -2458174920 1800 -2208988800: Africa/Johannesburg Africa/Maseru Africa/Mbabane
7200 -388 -2208988800: Africa/Juba
7200 -608 -2208988800: Africa/Khartoum
0 2588 -2208988800: Africa/Monrovia
3600 -12 -2208988800: Africa/Ndjamena
0 -1616 -2713914221 2205 -2208988800: Africa/Sao_Tome
7200 4036 -2208988800: Africa/Tripoli Libya
3600 1156 -2797205483 3039 -2208988800: Africa/Tunis
7200 3096 -2458172304 1800 -2208988800: Africa/Windhoek
-36000 -80002 -3225230125 6398 -2208988800: America/Adak America/Atka US/Aleutian
-32400 -82824 -3225227303 3576 -2208988800: America/Anchorage US/Alaska
-14400 1465 -2233035335: America/Anguilla America/Antigua America/Aruba America/Blanc-Sablon America/Curacao
-14400 1465 -2233035335: America/Dominica America/Grenada America/Guadeloupe America/Kralendijk America/Lower_Princes
-14400 1465 -2233035335: America/Marigot America/Montserrat America/Port_of_Spain America/Puerto_Rico
-14400 1465 -2233035335: America/St_Barthelemy America/St_Kitts America/St_Lucia America/St_Thomas America/St_Vincent
-14400 1465 -2233035335: America/Tortola America/Virgin
-10800 768 -2208988800: America/Araguaina
-10800 3228 -2372102580 4608 -2208988800: America/Argentina/Buenos_Aires America/Buenos_Aires
-10800 4988 -2372100820 4608 -2208988800: America/Argentina/Catamarca America/Argentina/ComodRivadavia America/Catamarca
-10800 4608 -2208988800: America/Argentina/Cordoba America/Cordoba America/Rosario
-10800 4872 -2372100936 4608 -2208988800: America/Argentina/Jujuy America/Jujuy
-10800 5244 -2372100564 4608 -2208988800: America/Argentina/La_Rioja
-10800 5716 -2372100092 4608 -2208988800: America/Argentina/Mendoza America/Mendoza
-10800 5812 -2372099996 4608 -2208988800: America/Argentina/Rio_Gallegos
-10800 4900 -2372100908 4608 -2208988800: America/Argentina/Salta
-10800 5644 -2372100164 4608 -2208988800: America/Argentina/San_Juan
-10800 5124 -2372100684 4608 -2208988800: America/Argentina/San_Luis
-10800 4852 -2372100956 4608 -2208988800: America/Argentina/Tucuman
-10800 5592 -2372100216 4608 -2208988800: America/Argentina/Ushuaia
-14400 -560 -2208988800: America/Asuncion
-18000 1088 -2524503688 1176 -2208988800: America/Atikokan America/Cayman America/Coral_Harbour America/Panama
-10800 -1556 -2208988800: America/Bahia
-21600 3660 -2208988800: America/Bahia_Banderas
-14400 -91 -2208988800: America/Barbados
-10800 836 -2208988800: America/Belem
-21600 -432 -2208988800: America/Belize
-14400 160 -2208988800: America/Boa_Vista
-18000 -224 -2208988800: America/Bogota
-25200 2689 -2717643600 3600 -2208988800: America/Boise
-25200 -25200 -2208988800: America/Cambridge_Bay America/Inuvik America/Yellowknife
-14400 -1292 -2208988800: America/Campo_Grande
-18000 2824 -2208988800: America/Cancun
-14400 1664 -2524507196 1660 -2208988800: America/Caracas
-10800 1760 -2208988800: America/Cayenne
-21600 -564 -2717647200: America/Chicago US/Central
-25200 260 -2208988800: America/Chihuahua
-21600 -1427 -2208988800: America/Costa_Rica
-25200 1698 -2717643600: America/Creston America/Phoenix US/Arizona
-14400 -940 -2208988800: America/Cuiaba
0 4480 -2208988800: America/Danmarkshavn
-25200 8260 -2208988800: America/Dawson
-25200 3656 -2713885144 3600 -2208988800: America/Dawson_Creek
-25200 -4 -2717643600: America/Denver America/Shiprock Navajo US/Mountain
-18000 1931 -2208988800: America/Detroit US/Michigan
-25200 2032 -2208988800: America/Edmonton Canada/Mountain
-18000 -1232 -2208988800: America/Eirunepe
-21600 -192 -2208988800: America/El_Salvador
-28800 -716 -2208988800: America/Ensenada America/Santa_Isabel America/Tijuana Mexico/BajaNorte
-25200 4247 -2713884553 3600 -2208988800: America/Fort_Nelson
-18000 2678 -2717650800 3600 -2208988800: America/Fort_Wayne America/Indiana/Indianapolis America/Indianapolis
-18000 2678 -2717650800 3600 -2208988800: US/East-Indiana
-10800 -1560 -2208988800: America/Fortaleza
-14400 -12 -2208988800: America/Glace_Bay
-10800 1616 -2208988800: America/Godthab America/Nuuk
-14400 100 -2713894152 -1748 -2208988800: America/Goose_Bay
-18000 -928 -2524504958 430 -2208988800: America/Grand_Turk
-21600 124 -2208988800: America/Guatemala
-18000 1160 -2524503280 840 -2208988800: America/Guayaquil
-14400 -441 -2208988800: America/Guyana
-14400 864 -2208988800: America/Halifax Canada/Atlantic
-18000 1768 -2524503608 1776 -2208988800: America/Havana Cuba
-25200 1432 -2208988800: America/Hermosillo
-21600 -810 -2717647200: America/Indiana/Knox America/Knox_IN US/Indiana-Starke
-18000 2723 -2717650800 3600 -2208988800: America/Indiana/Marengo
-18000 2947 -2717650800 3600 -2208988800: America/Indiana/Petersburg
-21600 -777 -2717647200: America/Indiana/Tell_City
-18000 2416 -2717650800 3600 -2208988800: America/Indiana/Vevay
-18000 3007 -2717650800 3600 -2208988800: America/Indiana/Vincennes
-18000 2785 -2717650800 3600 -2208988800: America/Indiana/Winamac
-18000 -18000 -2208988800: America/Iqaluit America/Pangnirtung
-18000 430 -2208988800: America/Jamaica Jamaica
-32400 -86539 -3225223588 -139 -2208988800: America/Juneau
-18000 2582 -2717650800 3600 -2208988800: America/Kentucky/Louisville America/Louisville
-18000 2364 -2717650800 3600 -2208988800: America/Kentucky/Monticello
-14400 1956 -2208988800: America/La_Paz
-18000 492 -2524503624 516 -2208988800: America/Lima
-28800 -422 -2717640000: America/Los_Angeles US/Pacific
-10800 -2228 -2208988800: America/Maceio
-21600 -892 -2524500004 -888 -2208988800: America/Managua
-14400 4 -2208988800: America/Manaus Brazil/West
-14400 260 -2208988800: America/Martinique
-21600 2400 -2208988800: America/Matamoros
-25200 340 -2208988800: America/Mazatlan Mexico/BajaSur
-21600 -573 -2659759773: America/Menominee
-21600 -92 -2208988800: America/Merida
-32400 -87222 -3225222905 -822 -2208988800: America/Metlakatla
-21600 2196 -2208988800: America/Mexico_City Mexico/General
-10800 2680 -2208988800: America/Miquelon
-14400 1148 -2715885652 3600 -2208988800: America/Moncton
-21600 2476 -2208988800: America/Monterrey
-10800 2691 -2208988800: America/Montevideo
-18000 1052 -2366736148: America/Montreal America/Nassau America/Toronto Canada/Eastern
-18000 -238 -2717650800: America/New_York US/Eastern
-18000 3184 -2366734016: America/Nipigon
-32400 -79102 -3225231025 7298 -2208988800: America/Nome
-7200 580 -2208988800: America/Noronha Brazil/DeNoronha
-21600 2827 -2717647200 3600 -2208988800: America/North_Dakota/Beulah
-21600 2712 -2717647200 3600 -2208988800: America/North_Dakota/Center
-21600 2739 -2717647200 3600 -2208988800: America/North_Dakota/New_Salem
-25200 -140 -2208988800: America/Ojinaga
-10800 2440 -2208988800: America/Paramaribo
-18000 -640 -2524503580 -660 -2208988800: America/Port-au-Prince
-18000 -1728 -2208988800: America/Porto_Acre America/Rio_Branco Brazil/Acre
-14400 936 -2208988800: America/Porto_Velho
-10800 6220 -2524510745 6165 -2208988800: America/Punta_Arenas
-21600 1096 -2366732504: America/Rainy_River
-21600 -21600 -2208988800: America/Rankin_Inlet America/Resolute
-10800 -2424 -2208988800: America/Recife
-21600 3516 -2208988800: America/Regina Canada/Saskatchewan
-10800 2328 -2208988800: America/Santarem
-14400 2565 -2208988800: America/Santiago Chile/Continental
-14400 2376 -2524507224 2400 -2208988800: America/Santo_Domingo
-10800 388 -2208988800: America/Sao_Paulo Brazil/East
-3600 1672 -2208988800: America/Scoresbysund
-32400 -86327 -3225223800 73 -2208988800: America/Sitka
-12600 52 -2208988800: America/St_Johns Canada/Newfoundland
-21600 4280 -2208988800: America/Swift_Current
-21600 -668 -2208988800: America/Tegucigalpa
-14400 2108 -2208988800: America/Thule
-18000 3420 -2366737380 3600 -2208988800: America/Thunder_Bay
-28800 748 -2713880852: America/Vancouver Canada/Pacific
-25200 7212 -2208988800: America/Whitehorse Canada/Yukon
-21600 1716 -2602258284: America/Winnipeg Canada/Central
-32400 -85265 -3225224862 1135 -2208988800: America/Yakutat
39600 39600 -2208988800: Antarctica/Casey
25200 25200 -2208988800: Antarctica/Davis
36000 680 -2840176808 688 -2366790512: Antarctica/DumontDUrville Pacific/Chuuk Pacific/Port_Moresby Pacific/Truk
36000 680 -2840176808 688 -2366790512: Pacific/Yap
36000 36000 -2214259200: Antarctica/Macquarie
18000 18000 -2208988800: Antarctica/Mawson
43200 1256 -3192437344 1800 -2208988800: Antarctica/McMurdo Antarctica/South_Pole NZ Pacific/Auckland
-10800 -10800 -2208988800: Antarctica/Palmer Antarctica/Rothera
10800 -412 -2208988800: Antarctica/Syowa Asia/Aden Asia/Kuwait Asia/Riyadh
0: Antarctica/Troll Etc/GMT Etc/GMT+0 Etc/GMT-0 Etc/GMT0 Etc/Greenwich Etc/UCT Etc/UTC Etc/Universal Etc/Zulu GMT GMT0
0: Greenwich UCT UTC Universal WET Zulu
21600 580 -2208988800: Antarctica/Vostok Asia/Kashgar Asia/Urumqi
3600 392 -2422054408: Arctic/Longyearbyen Atlantic/Jan_Mayen Europe/Berlin Europe/Copenhagen Europe/Oslo
3600 392 -2422054408: Europe/Stockholm
21600 3132 -2208988800: Asia/Almaty
7200 -1424 -2208988800: Asia/Amman
43200 604 -2208988800: Asia/Anadyr
18000 5936 -2208988800: Asia/Aqtau
18000 4280 -2208988800: Asia/Aqtobe
18000 3988 -2208988800: Asia/Ashgabat Asia/Ashkhabad
18000 5536 -2208988800: Asia/Atyrau
10800 140 -2524532404 144 -2208988800: Asia/Baghdad
10800 -1568 -2208988800: Asia/Bahrain Asia/Qatar
14400 2436 -2208988800: Asia/Baku
25200 1076 -2208988800: Asia/Bangkok Asia/Phnom_Penh Asia/Vientiane Indian/Christmas
25200 5100 -2208988800: Asia/Barnaul
7200 -1320 -2840149320: Asia/Beirut
21600 3696 -2208988800: Asia/Bishkek
28800 2320 -2208988800: Asia/Brunei Asia/Kuching
19800 -1408 -3645235808 -1400 -3155695330 530 -2208988800: Asia/Calcutta Asia/Kolkata
32400 5168 -2208988800: Asia/Chita
28800 1320 -2208988800: Asia/Choibalsan
28800 -343 -2208988800: Asia/Chongqing Asia/Chungking Asia/Harbin Asia/Shanghai PRC
19800 636 -2840160592 628 -2208988800: Asia/Colombo
21600 -100 -2524543700 400 -2208988800: Asia/Dacca Asia/Dhaka
7200 -1512 -2208988800: Asia/Damascus
32400 2260 -2208988800: Asia/Dili
14400 1128 -2208988800: Asia/Dubai Asia/Muscat Indian/Mahe Indian/Reunion
18000 1488 -2208988800: Asia/Dushanbe
7200 -948 -2208988800: Asia/Famagusta
7200 -1072 -2208988800: Asia/Gaza
7200 -1223 -2208988800: Asia/Hebron
25200 -390 -2208988800: Asia/Ho_Chi_Minh Asia/Saigon
28800 1398 -2208988800: Asia/Hong_Kong Hongkong
25200 3204 -2208988800: Asia/Hovd
28800 3775 -2208988800: Asia/Irkutsk
10800 3848 -2840151536 3784 -2208988800: Asia/Istanbul Europe/Istanbul Turkey
25200 -432 -2208988800: Asia/Jakarta
32400 -1368 -2208988800: Asia/Jayapura
7200 -1254 -2840148014 -1240 -2208988800: Asia/Jerusalem Asia/Tel_Aviv Israel
16200 -408 -2524540008 1800 -2208988800: Asia/Kabul
43200 5124 -2208988800: Asia/Kamchatka
18000 1908 -2208988800: Asia/Karachi
20700 224 -2208988800: Asia/Kathmandu Asia/Katmandu
32400 -133 -2208988800: Asia/Khandyga
25200 2914 -2208988800: Asia/Krasnoyarsk
28800 3875 -2208988800: Asia/Kuala_Lumpur Asia/Singapore Singapore
28800 1550 -2208988800: Asia/Macao Asia/Macau
39600 3408 -2208988800: Asia/Magadan
28800 144 -2208988800: Asia/Makassar Asia/Ujung_Pandang
28800 86160 -3944620800 -240 -2229321840: Asia/Manila
7200 -808 -2208988800: Asia/Nicosia Europe/Nicosia
25200 4272 -2208988800: Asia/Novokuznetsk
25200 5300 -2208988800: Asia/Novosibirsk
21600 3990 -2208988800: Asia/Omsk
18000 5676 -2208988800: Asia/Oral
25200 -1040 -2208988800: Asia/Pontianak
32400 2220 -2208988800: Asia/Pyongyang
21600 6332 -2208988800: Asia/Qostanay
18000 2288 -2208988800: Asia/Qyzylorda
23400 313 -2208988800: Asia/Rangoon Asia/Yangon Indian/Cocos
39600 5352 -2208988800: Asia/Sakhalin
18000 1927 -2208988800: Asia/Samarkand
32400 1928 -2208988800: Asia/Seoul ROK
39600 2708 -2208988800: Asia/Srednekolymsk
28800 -360 -2335248360: Asia/Taipei
18000 1369 -2208988800: Asia/Tashkent
14400 3649 -2208988800: Asia/Tbilisi
12600 256 -2208988800: Asia/Tehran Iran
21600 84 -2208988800: Asia/Thimbu Asia/Thimphu
32400 -1139 -2587712400: Asia/Tokyo Japan
25200 4809 -2208988800: Asia/Tomsk
28800 3148 -2208988800: Asia/Ulaanbaatar Asia/Ulan_Bator
36000 1626 -2208988800: Asia/Ust-Nera
36000 4349 -2208988800: Asia/Vladivostok
32400 1262 -2208988800: Asia/Yakutsk
18000 3447 -2208988800: Asia/Yekaterinburg
14400 3720 -2208988800: Asia/Yerevan
-3600 2560 -2713907512 3272 -2208988800: Atlantic/Azores
-14400 1158 -2208988800: Atlantic/Bermuda
0 3696 -2208988800: Atlantic/Canary
-3600 2044 -2208988800: Atlantic/Cape_Verde
0 1624 -2208988800: Atlantic/Faeroe Atlantic/Faroe
0 4056 -2208988800: Atlantic/Madeira
-7200 1568 -2524512832: Atlantic/South_Georgia
-10800 3084 -2208988800: Atlantic/Stanley
36000 -292 -2364113092: Australia/ACT Australia/Canberra Australia/NSW Australia/Sydney
34200 940 -2364111860 1800 -2230189200: Australia/Adelaide Australia/South
36000 -728 -2366791928: Australia/Brisbane Australia/Queensland
34200 252 -2364108948 -1800 -2314953000 1800 -2230189200: Australia/Broken_Hill Australia/Yancowinna
36000 644 -2345795356: Australia/Currie Australia/Hobart Australia/Tasmania
34200 2800 -2364110000 1800 -2230189200: Australia/Darwin Australia/North
31500 572 -2337928528: Australia/Eucla
37800 -380 -2364116780 1800 -2208988800: Australia/LHI Australia/Lord_Howe
36000 244 -2366790956: Australia/Lindeman
36000 1208 -2364111592: Australia/Melbourne Australia/Victoria
28800 996 -2337925404: Australia/Perth Australia/West
3600: CET Etc/GMT-1 MET
-21600: CST6CDT Etc/GMT+6 SystemV/CST6 SystemV/CST6CDT
-21600 4648 -2208988800: Chile/EasterIsland Pacific/Easter
7200: EET Etc/GMT-2
-18000: EST5EDT Etc/GMT+5 SystemV/EST5 SystemV/EST5EDT
0 1521 -2208988800: Eire Europe/Dublin
-3600: Etc/GMT+1
-36000: Etc/GMT+10 SystemV/HST10
-39600: Etc/GMT+11
-43200: Etc/GMT+12
-7200: Etc/GMT+2
-10800: Etc/GMT+3
-14400: Etc/GMT+4 SystemV/AST4 SystemV/AST4ADT
-25200: Etc/GMT+7 MST7MDT SystemV/MST7 SystemV/MST7MDT
-28800: Etc/GMT+8 PST8PDT SystemV/PST8 SystemV/PST8PDT
-32400: Etc/GMT+9 SystemV/YST9 SystemV/YST9YDT
36000: Etc/GMT-10
39600: Etc/GMT-11
43200: Etc/GMT-12
46800: Etc/GMT-13
50400: Etc/GMT-14
10800: Etc/GMT-3
14400: Etc/GMT-4
18000: Etc/GMT-5
21600: Etc/GMT-6
25200: Etc/GMT-7
28800: Etc/GMT-8
32400: Etc/GMT-9
3600 2550 -2450998800 3600 -2208988800: Europe/Amsterdam Europe/Brussels Europe/Luxembourg
3600 3236 -2208988800: Europe/Andorra
14400 2868 -2208988800: Europe/Astrakhan
7200 1508 -2208988800: Europe/Athens
0 75 -3852662325: Europe/Belfast Europe/Guernsey Europe/Isle_of_Man Europe/Jersey Europe/London GB GB-Eire
3600 -1320 -2713915320: Europe/Belgrade Europe/Ljubljana Europe/Podgorica Europe/Sarajevo Europe/Skopje Europe/Zagreb
3600 136 -2469401864: Europe/Bratislava Europe/Prague
7200 936 -2208988800: Europe/Bucharest
3600 -980 -2498260580: Europe/Budapest
3600 1552 -3675200662 1814 -2385246586: Europe/Busingen Europe/Vaduz Europe/Zurich
7200 280 -2840148020 300 -2208988800: Europe/Chisinau Europe/Tiraspol
3600 4884 -2821653516 3600 -2208988800: Europe/Gibraltar
7200 1211 -2208988800: Europe/Helsinki Europe/Mariehamn
7200 2280 -2422059720 3600 -2208988800: Europe/Kaliningrad
7200 -124 -2208988800: Europe/Kiev Europe/Kyiv
10800 -1128 -2208988800: Europe/Kirov
0 2205 -2208988800: Europe/Lisbon Portugal
3600 4484 -2208988800: Europe/Madrid
3600 116 -2403478684: Europe/Malta
10800 4184 -2840151616 4200 -2208988800: Europe/Minsk
3600 3039 -2208988800: Europe/Monaco Europe/Paris
10800 1783 -2208988800: Europe/Moscow W-SU
7200 1406 -2208988800: Europe/Riga
3600 604 -2403565200: Europe/Rome Europe/San_Marino Europe/Vatican
14400 2380 -2208988800: Europe/Samara
14400 3342 -2208988800: Europe/Saratov
10800 2616 -2840151624 2640 -2208988800: Europe/Simferopol
7200 1604 -2840146580 184 -2369527016: Europe/Sofia
7200 1260 -2208988800: Europe/Tallinn
3600 -1160 -2208988800: Europe/Tirane
14400 2784 -2208988800: Europe/Ulyanovsk
7200 1848 -2500943352 3600 -2208988800: Europe/Uzhgorod
3600 -321 -2422055121: Europe/Vienna
7200 1124 -2840149036 2160 -2208988800: Europe/Vilnius
10800 140 -2208988800: Europe/Volgograd
3600 -1440 -2208988800: Europe/Warsaw Poland
7200 -1240 -2840148040 -1200 -2208988800: Europe/Zaporozhye
21600 4220 -2208988800: Indian/Chagos
18000 360 -2208988800: Indian/Kerguelen Indian/Maldives
14400 600 -2208988800: Indian/Mauritius
43200 3040 -2208988800: Kwajalein Pacific/Kwajalein
45900 1872 -3192439428 1800 -2208988800: NZ-CHAT Pacific/Chatham
46800 1616 -2445512400 88016 -2208988800: Pacific/Apia
39600 2264 -2840182424 4288 -2366794112 3600 -2208988800: Pacific/Bougainville
39600 -796 -2208988800: Pacific/Efate
46800 46800 -2208988800: Pacific/Enderbury Pacific/Kanton
46800 87896 -2208988800: Pacific/Fakaofo
43200 256 -2208988800: Pacific/Fiji
43200 1676 -2208988800: Pacific/Funafuti Pacific/Majuro Pacific/Tarawa Pacific/Wake Pacific/Wallis
-21600 -96 -2208988800: Pacific/Galapagos
-32400 -12 -2208988800: Pacific/Gambier
39600 1212 -2208988800: Pacific/Guadalcanal Pacific/Pohnpei Pacific/Ponape
36000 87660 -3944628000 1260 -2208988800: Pacific/Guam Pacific/Saipan
-36000 1886 -2334103114 1800 -2208988800: Pacific/Honolulu Pacific/Johnston US/Hawaii
50400 88160 -2208988800: Pacific/Kiritimati
39600 86884 -3944631600 484 -2208988800: Pacific/Kosrae
-34200 -720 -2208988800: Pacific/Marquesas
-39600 -85032 -2445426000 1368 -2208988800: Pacific/Midway Pacific/Pago_Pago Pacific/Samoa US/Samoa
43200 3140 -2208988800: Pacific/Nauru
-39600 1180 -2208988800: Pacific/Niue
39600 -712 -2208988800: Pacific/Norfolk
39600 -348 -2208988800: Pacific/Noumea
32400 86524 -3944624400 124 -2208988800: Pacific/Palau
-28800 2420 -2208988800: Pacific/Pitcairn
-36000 -84056 -2209557600 2344 -2208988800: Pacific/Rarotonga
-36000 -104 -2208988800: Pacific/Tahiti
46800 2448 -2208988800: Pacific/Tongatapu
"""
Array = Any
Integers = npt.NDArray[np.int64]
FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970; the day before is 1582-10-04."""
_DAY = 86_400
_FIRST_GREGORIAN_SECOND = FIRST_GREGORIAN_DAY * _DAY
_FIRST_SECOND = -62_135_769_600
"""0001-01-01 of the Julian calendar."""
_END_OF_SHIFTS = -2_208_988_800
"""1900-01-01 in UTC, in seconds since 1970. From then on, there is no difference in any time zone."""
_DAYS_FROM_MARCH_0 = 719_470
"""From 0000-03-01 of the Julian calendar to 1970-01-01."""
_DAYS_OF_FOUR_YEARS = 1_461
_MOST_BETWEEN_ZONES = 2 * _DAY
_LEAST_TIME = -(2**63)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# What ``java.util.TimeZone`` makes of a name that it does not know.
_OFFSET_OF_GMT = re.compile(r"GMT([+-])(\d\d?)(?::?(\d\d))?")
_OTHER_OFFSET = re.compile(r"(UTC?)?[+-][0-9:]+|Z")


class JulianZone(NamedTuple):
    """A time zone before 1900; all numbers are seconds.

    ``offset`` is the offset in Java's old classes. In the new ones, a local time is ``shifts[0]`` later in UTC, up to
    ``switches[0]`` since 1970, and so on; there is a switch after each shift, and no shift after the last.
    """

    offset: int
    shifts: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()


@cache
def julian_zones() -> dict[str, JulianZone]:
    """The zones by name."""
    zones = {}
    for line in _ZONES.splitlines():
        numbers, _, names = line.partition(": ")
        offset, *rest = map(int, numbers.split())
        zone = JulianZone(offset, tuple(rest[::2]), tuple(rest[1::2]))
        zones.update(dict.fromkeys(names.split(), zone))
    return zones


@cache
def julian_zone(name: str) -> JulianZone | None:
    """The time zone of a name as Spark understands it; None if it is not known."""
    zone = julian_zones().get(name)
    if zone is not None:
        return zone
    if (match := _OFFSET_OF_GMT.fullmatch(name)) is not None:
        sign, hours, minutes = match.groups(default="0")
        return JulianZone(int(f"{sign}1") * (int(hours) * 3600 + int(minutes) * 60))
    return JulianZone(0) if _OTHER_OFFSET.fullmatch(name) else None


def first_unchanged(kind: Any, zone: JulianZone | None) -> int:  # noqa: ANN401 - a type of Arrow
    """The first value, as Arrow stores it, from which on all values stay as they are; in any zone, if it is None."""
    if pa.types.is_date32(kind):
        return FIRST_GREGORIAN_DAY
    if zone is None:
        return _END_OF_SHIFTS * _UNITS[kind.unit]
    return max((_FIRST_GREGORIAN_SECOND - zone.offset, *zone.switches[-1:])) * _UNITS[kind.unit]


def first_known(kind: Any, zone: JulianZone | None) -> int | None:  # noqa: ANN401 - a type of Arrow
    """The first value, as Arrow stores it, from which on the results are known; None if all are.

    Before the year 1, results depend on the time zones that a release of Java knows, except in UTC.
    """
    if pa.types.is_date32(kind) or zone == JulianZone(0):
        return None
    return first_unchanged(kind, None) if zone is None else (_FIRST_SECOND - zone.offset) * _UNITS[kind.unit]


def gregorian(values: Array, zone: JulianZone | None) -> Array:
    """An array of dates or times, which are local ones of a time zone, in the proleptic Gregorian calendar.

    Dates are the same in all zones; times that are not ``first_known`` or later have no meaning.
    """
    is_date = pa.types.is_date32(values.type)
    whole = pa.int32() if is_date else pa.int64()
    numbers = values.view(whole).fill_null(0).to_numpy().astype(np.int64)
    early = np.flatnonzero(numbers < first_unchanged(values.type, zone))
    if not len(early):
        return values
    shifted = numbers[early]
    numbers[early] = (
        _gregorian_days(shifted)
        if is_date
        else _gregorian_times(shifted, zone or JulianZone(0), _UNITS[values.type.unit])
    )
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers.astype(np.int32) if is_date else numbers, whole, mask=mask).view(values.type)


def _gregorian_days(days: Integers) -> Integers:
    # Years begin in March, so that a day that is left out is the last of its year.
    years = (4 * (days + _DAYS_FROM_MARCH_0) + 3) // _DAYS_OF_FOUR_YEARS
    between = 2 + years // 400 - years // 100
    rebased: Integers = days + np.where(days < FIRST_GREGORIAN_DAY, between, 0)
    return rebased


def _gregorian_times(times: Integers, zone: JulianZone, units: int) -> Integers:
    seconds = times // units
    local_days = (seconds + zone.offset) // _DAY
    shifts = np.array([*zone.shifts, 0])[np.searchsorted(zone.switches, seconds, side="right")]
    rebased: Integers = times + ((_gregorian_days(local_days) - local_days) * _DAY + shifts) * units
    return rebased


def widened(low: int, high: int, kind: Any) -> tuple[int, int]:  # noqa: ANN401 - a type of Arrow
    """A range that includes the values of another one, whichever calendar they are of, and in all time zones.

    The ends are days of dates, or the numbers of times that Arrow stores.
    """
    if pa.types.is_date32(kind):
        first, last = _gregorian_days(np.array([low, high])).tolist()
        return min(low, first), max(high, last)
    units = _UNITS[kind.unit]
    end, margin = _END_OF_SHIFTS * units, _MOST_BETWEEN_ZONES * units
    if low < end:
        low = max(min(low, _gregorian_time(low - margin, units)) - margin, _LEAST_TIME)
    if high < end + margin:
        high = max(high, _gregorian_time(high + margin, units)) + margin
    return low, high


def _gregorian_time(time: int, units: int) -> int:
    shifted: int = _gregorian_times(np.array([max(time, _LEAST_TIME)]), JulianZone(0), units)[0].item()
    return shifted
