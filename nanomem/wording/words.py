"""What nanomem knows of words: numbers, units, months, small words, opposites. Pure."""

from functools import lru_cache

from nanomem.patterns import late

HAN = "\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Chinese and Japanese characters, as a set of a pattern."""


def _table(text: str) -> dict[str, str]:
    """`name: word word; name: word` the other way round."""
    rows = (row.split(":") for row in text.replace("\n", " ").split(";") if row.strip())
    return {word: name.strip() for name, words in rows for word in words.split()}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MONTHS = _table(
    """m1: january jan januar enero janvier gennaio; m2: february feb februar febrero février febbraio; m3: march
    mar märz marzo mars; m4: april apr abril avril aprile; m5: may mai mayo maggio; m6: june jun juni junio juin
    giugno; m7: july jul juli julio juillet luglio; m8: august aug agosto août; m9: september sep sept septiembre
    septembre settembre; m10: october oct oktober octubre octobre ottobre; m11: november nov noviembre novembre;
    m12: december dec dezember diciembre décembre dicembre; m1: января январь; m2: февраля февраль; m3: марта
    март; m4: апреля апрель; m5: мая май; m6: июня июнь; m7: июля июль; m8: августа август; m9: сентября
    сентябрь; m10: октября октябрь; m11: ноября ноябрь; m12: декабря декабрь"""
)
DATES = frozenset(f"m{month}" for month in range(1, 13)) | frozenset(f"w{day}" for day in range(1, 8))
SHAKY_MONTHS = _words("jan mar march may mai mars sep dec август май март")
DAYS = _table(
    """w1: monday mondays mon montag montags lunes lundi lunedì понедельник; w2: tuesday tuesdays tue dienstag
    dienstags martes mardi martedì вторник; w3: wednesday wednesdays wed mittwoch mittwochs miércoles mercredi
    mercoledì среда среду средам; w4: thursday thursdays thu donnerstag donnerstags jueves jeudi giovedì четверг;
    w5: friday fridays fri freitag freitags viernes vendredi venerdì пятница пятницу пятницам; w6: saturday
    saturdays samstag samstags sábado sábados samedi sabato суббота субботу субботам; w7: sunday sundays sonntag
    sonntags domingo domingos dimanche domenica воскресенье"""
)
UNITS = _table(
    """mcg: mcg µg μg microgram micrograms 微克; mg: mg milligram milligrams 毫克; g: g gram grams gramm gramos
    grammes 克; kg: kg kilo kilos kilogram kilograms 公斤 千克; lb: lb lbs 磅; km: km kilometre kilometres
    kilometer kilometers kilómetros 公里 千米; mi: mi mile miles 英里; m: m metre metres meter meters metros
    mètres 米; cm: cm centimetre centimetres centimeters 厘米; mm: mm millimetres millimeters 毫米; l: l litre
    litres liter liters litros 升; ml: ml millilitres milliliters 毫升; deg: degree degrees grad grados degrés 度
    °; pct: % percent prozent; ft: ft feet foot 英尺; in: inch inches 英寸; eur: € eur euro euros 欧元 евро; gbp:
    £ gbp pound pounds 英镑; usd: $ usd dollar dollars 美元; cny: ¥ cny rmb yuan 元 块 人民币; jpy: jpy yen 日元;
    chf: chf francs franken 法郎; min: min minute minutes minuten minutos 分钟; sec: sec second seconds sekunden
    秒; hour: h hr hrs hour hours stunden stunde horas heures 小时; day: day days tage tagen días jours 天; week:
    week weeks wochen semanas semaines 周 星期; month: month months monate meses mois 个月; year: year years
    jahre jahren años ans 年 лет; mb: mb; gb: gb; tb: tb; kwh: kwh; kmh: km/h; mph: mph; age: 岁 周岁"""
)
HAN_UNITS = sorted((unit for unit in UNITS if unit >= HAN[0]), key=len, reverse=True)
NUMBERS = {
    word: str(value)
    for words in (
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
        "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "- deux trois quatre cinq six sept huit neuf dix onze douze",
    )
    for value, word in enumerate(words.split(), start=1)
    if word not in ("-", "once")
} | {"sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19", "hundred": "100", "dozen": "12"}
NUMBERS |= {"once": "1", "twice": "2", "thrice": "3"}
TENS = {
    word: value
    for words in (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
        "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
        "vingt trente quarante cinquante soixante",
    )
    for value, word in zip(range(20, 100, 10), words.split(), strict=False)
}
NUMBERS |= {word: str(value) for word, value in TENS.items()}
SECOND = "second third fourth fifth sixth seventh eighth ninth tenth"
ORDINALS = {word: str(value) for word, value in zip(SECOND.split(), range(2, 11), strict=True)}
TENS_ONES = late(
    rf"({'|'.join(TENS)})-(one|two|three|four|five|six|seven|eight|nine|deux|trois|quatre|cinq|sept|huit|neuf)"
)
NUMBERS |= {
    f"{one}und{ten}": str(tens + ones)
    for ten, tens in TENS.items()
    for ones, one in enumerate(["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"], start=1)
    if ten.endswith("zig") or ten == "dreißig"
}
NOT = _table(
    """en: no not never none nobody nothing nor neither without cannot except; de: nicht kein keine keinen keinem keiner
    nie niemals ohne weder nichts; es: nunca jamás sin ni ningún ninguna ninguno nada nadie tampoco não sem; fr: ne pas
    jamais sans aucun aucune rien; it: non senza nessun nessuna; nl: niet geen nooit zonder; ru: не нет без никогда ни
    нельзя никто ничего"""
)
"""Negations, and the language of each."""
TURNS = _words(
    """stopped quit avoid avoids avoided avoiding former formerly ex ceased cancelled canceled refuse refuses refused
    forbid forbids forbidden lacks maybe perhaps possibly rarely seldom hardly barely unless planned hörte vermeidet
    ehemaliger ehemalige ehemals früher selten vielleicht evita dejó antiguo antigua raramente quizás évite ancien
    ancienne arrêté rarement"""
)
"""Words that turn what follows into something else, as a negation does."""
ONLY = _table("only: only solely exclusively nur ausschließlich solo sólo solamente seulement только 只 仅")
SMALL = {
    "en": """a an the of to in on at for with and or is are was were be been being has have had do does did it its
    his her their my our your he she they we you i this that these those by from as also so who which when there than
    then them him would will s""",
    "de": """der die das ein eine einen einem einer und oder ist sind war hat haben im am an auf zu zum zur mit von vom
    für bei den dem des es sie er sich als auch wird seit""",
    "es": "el la los las un una y o es en de del al con por para su sus se que lo le está desde",
    "fr": "le les une et ou est sont du des au aux avec pour par sa ses qui il elle dans sur à depuis",
    "it": "il gli è sono di della nel alla con per che si da dal",
    "ru": "и в на с по у к о за из для это он она его её что как",
}
TONGUES = {
    word: [tongue for tongue, words in SMALL.items() if word in words.split()]
    for words in SMALL.values()
    for word in words.split()
}
"""The small words, and the languages that have them."""
CUES = _table(
    """en: works lives pays owes likes plays meets rents drives calls daughter son sister brother wife husband mother
    father boss doctor dentist appointment birthday every rent week year years age old; de: zahlt wohnt arbeitet mag
    spielt trifft mietet fährt schuldet tochter sohn schwester bruder mutter vater chefin chef arzt zahnarzt termin
    geburtstag geboren jeden miete woche jahre jahr; es: paga vive trabaja juega alquila conduce llama debe hija hijo
    hermana hermano esposa madre padre jefe jefa médico dentista cita cumpleaños cada semana año años mora trabalha
    aluguel aniversário; fr: paie habite travaille aime joue loue conduit appelle doit fille fils sœur frère femme mari
    mère père médecin dentiste rendez-vous anniversaire chaque loyer semaine ans chez"""
)
"""Common words, and the language of each."""
BEFORE_NAMES = _words("mit bei in aus nach von")
AND = _words("and but or und aber oder y pero et mais ou")
RELATIONS = _words("to from for by in with than who which that")
WAYS = _table(
    """from: from since von seit aus ab desde depuis 从 自 起; to: to until till bis nach zum zur hasta jusqu 到 至;
    by: by durch par 被"""
)
"""Words that say from where, until when, or by whom."""
LINKS = "~"
"""Stands for a small word that says how its neighbours belong together."""
PAUSE = "|"
"""Stands where a clause ends, or a list goes on."""
BOXES = frozenset({"[ ]", "[x]"})
SECRETS = _words("password passwort passphrase passcode token contraseña kennwort secret")
MAYBE_SECRETS = _words("code key pin login")
TITLES = _words("mr mrs ms miss dr prof herr frau mme madame monsieur señor señora sr sra st uncle aunt i")
VERBS = _words("is was has had will can does are were did went lives likes wants works plays keeps gets")
KNOWN = {*WAYS, *TONGUES, *CUES, *NOT, *DAYS, *MONTHS, *NUMBERS, *ORDINALS, *ONLY}
HAN_SMALL = frozenset("每的了在是和与及也都把被为于着过会之地得")
HAN_AND = frozenset("和与及也")
HAN_ROLES = frozenset("给欠借送教比替帮管娶嫁问赢输打恨怕爱")
HAN_SAME = {"爸爸": "父亲", "妈妈": "母亲", "喜欢": "爱", "担任": "当", "尤其": "特别", "小孩": "孩子", "入职": "加入"}
HAN_SAME_FOUND = late("|".join(HAN_SAME))
HAN_NOT = late(
    r"不(?!错)|没|無|无(?!锡)|未(?!来)|勿|(?<![特区性个告分级])别(?!墅)|非(?!常|洲)|戒(?!指)|禁|停(?![车留电])|拒绝|避免|可能|也许"
    r"|取消|除了|前(?=[妻夫任]|女友|男友|同事|老板)"
)
HAN_FIRM = late(
    rf"(?:\A|[\s,.:;、()\"是叫由和与跟给找向请]|医生|老师)([{HAN}]{{2}})(?=\Z|[\s,.:;、()\"]|[{HAN}]?[,.]|先生|女士|老师|医生)"
    rf"|(?:[在到去]|住在|来自)([{HAN}]{{2}})"
)
UN = ("un", "in", "im", "dis", "non", "ir")


def _poles(text: str) -> dict[str, frozenset[str]]:
    """For each word those of its opposites: `a b` in one row."""
    found: dict[str, set[str]] = {}
    for row in text.split(";"):
        sides = [{stem_of(word) for word in side.split()} for side in row.split("/")]
        for side in sides:
            for word in side:
                found.setdefault(word, set()).update(*(other for other in sides if other is not side))
    return {word: frozenset(others) for word, others in found.items()}


@lru_cache(maxsize=10_000)
def stem_of(word: str) -> str:
    """The beginning that forms of a word have in common, roughly."""
    if len(word) > 4:
        for ending in ("ings", "ing", "ied", "ies", "ed", "es", "en", "ly", "s", "e", "y"):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)]
                break
    elif len(word) == 4 and word[-1] == "s" and word[-2] != "s":
        word = word[:-1]
    return word[:6]


SAME = {
    stem_of(word): stem_of(words.split()[0])
    for words in (
        "works work employed job",
        "likes like enjoys enjoy loves love fond",
        "starts start begins began begun started",
        "bought buys buy buying purchased purchase got",
        "fixes fix mends mend repairs repair",
        "dad father",
        "mum mom mother",
        "lives live lived living resides dwells",
        "picks pick collects collect",
        "uses used use",
        "rents rent leases",
        "bike bicycle",
        "phone telephone",
        "flat apartment",
        "owns own possesses",
        "especially particularly",
        "ticket pass",
    )
    for word in words.split()
}
"""Words that say the same: each stem, and the one that stands for all of them."""
LIGHT = frozenset(
    map(
        stem_of,
        _words(
            """user person gets get got takes take have make makes goes go comes called named ever currently now times
            time spent spends live lives lived living works worked up wohnt arbeitet vive trabaja habite travaille uhr
            mr mrs ms dr herr frau been"""
        ),
    )
) | frozenset("叫当做办向去来年月日号次起自从开始一位名个曾任担要被住只")
"""Words that a fact can do without."""
POLES = _poles(
    """before/after;until/since/from;above over/below under;left/right;morning/evening night afternoon;open
    opens/closed closes;more/less fewer;likes loves prefers enjoys/hates dislikes detests avoids;owes/lent paid
    owed owns;buys bought/ sells sold;starts started begins began joined/ends ended stopped stops quit left
    finished;with/without;hot warm/cold; am/pm;first/last;early/late;up/down;always/sometimes rarely seldom
    never;big large/small;married engaged/divorced single widowed;accepted/declined refused rejected;often/rarely
    seldom;arrives arrived/leaves left departs; allowed/forbidden;north/south;east/west;older
    elder/younger;父/母;左/右;前/后;早/晚;买/卖;爱 喜/讨 厌;男/女;开/关;哥 兄/弟;姐/妹;
    lives lived resides/works worked/studies studied/visits visited/moved/born;teaches taught/learns learned learnt;
    reads/writes wrote;rents rented/owns owned;lost/found"""
)
