//! Invisible and look-alike characters (Unicode Technical Standard 39).

use std::sync::LazyLock;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Characters that look like an ASCII character, beside those of [`STYLES`]: those that Unicode decomposes to it and marks,
/// those that its `confusables.txt` maps to a capital, a small or a small capital letter, and some that only people
/// confuse. A test compares them with Unicode's data.
#[rustfmt::skip] // One row a line.
const LOOKALIKES: &[(char, &str)] = &[
    ('/', "᜵⁁⁄∕╱⟋⧶⧸Ⳇⳇ⼃〳ノ㇒㇓㋨丿／ﾉ\u{1d23a}"),
    ('<', "«˂ᐸᚲ‹≮❬❮❰⟨⟪⟬⟮⦑⧼ⵦ〈《﹤＜\u{1032d}\u{16aec}\u{1d236}"),
    ('>', "»˃ᐳ›≯❭❯❱⟩⟫⟭⟯⦒⧽〉》﹥＞\u{16f3f}\u{1d237}"),
    ('A', "ªÀÁÂÃÄÅàáâãäåĀāĂăĄąǍǎǞǟǠǡǺǻȀȁȂȃȦȧɅɑΆΑΔΛάαλАаӐӑӒӓᎪᗅᴀᴬᵃᵅḀḁẠạẢảẤấẦầẨẩẪẫẬậẮắẰằẲẳẴẵẶặἀἁἂἃἄἅἆἇἈἉἊἋἌἍἎἏὰάᾀᾁ\
         ᾂᾃᾄᾅᾆᾇᾈᾉᾊᾋᾌᾍᾎᾏᾰᾱᾲᾳᾴᾶᾷᾸᾹᾺΆᾼₐÅ∀⍶⍺ꓮꭤꭺ\u{102a0}\u{16f40}\u{1ccd6}\u{1d6a8}\u{1d6c2}\u{1d6e2}\u{1d6fc}\
         \u{1d71c}\u{1d736}\u{1d756}\u{1d770}\u{1d790}\u{1d7aa}\u{1df40}\u{1df41}\u{1df5a}\u{1df6a}\u{1dfe9}\
         \u{1e030}\u{1e051}"),
    ('B', "ƀƂƃƄɓʙΒБВЬвѢѣҌҍ\u{7d5}ᏏᏴᏼᑲᑳᖯᗷᴮᵇḂḃḄḅḆḇℬⲂⲃꓐꕗꚝꞴ\u{10282}\u{102a1}\u{10301}\u{1031c}\u{10784}\u{10785}\
         \u{16eb6}\u{1ccd7}\u{1d207}\u{1d6a9}\u{1d6e3}\u{1d71d}\u{1d757}\u{1d791}\u{1dfd2}\u{1e032}\u{1e053}"),
    ('C', "¢ÇçĆćĈĉĊċČčȼϲϹСсҪҫငၚᏟᲃᴄᶜḈḉ₡ℂℭⅭⅽⲤⲥꓚꟲꮯ￠\u{102a2}\u{10302}\u{10415}\u{1043d}\u{1051b}\u{118e9}\u{118f2}\
         \u{1ccd8}\u{1d134}\u{1e03f}\u{1e05e}\u{1e06b}\u{1f12b}\u{1f16e}\u{1f74c}"),
    ('D', "ÐĎďĐđƉƋƌɖɗԁᎠᏧᑯᗞᗪᴅᴰᵈḊḋḌḍḎḏḐḑḒḓ₫ⅅⅆⅮⅾꓒꓓꭰ\u{1018b}\u{1078b}\u{1078c}\u{1ccd9}\u{1df2d}\u{1dfd3}\u{1dfe8}"),
    ('E', "ÈÉÊËèéêëĒēĔĕĖėĘęĚěƎǝȄȅȆȇȨȩɆɇəɛΈΕΞΣέεξϵЀЁЕеѐёєҽҿӖӗәӛԑᎬᴇᴱᴲᵉᵊᵋḔḕḖḗḘḙḚḛḜḝẸẹẺẻẼẽẾếỀềỂểỄễỆệἐἑἒἓἔἕἘἙἚἛἜἝὲέῈ\
         Έₑₔ℮ℯℰⅇ∃∄⋴⋿⍷ⲉⴹⴺꓰꓱꗋꞓꬲꭼꮛ\u{10286}\u{10429}\u{118a6}\u{118ae}\u{118ce}\u{1ccda}\u{1d228}\u{1d6ac}\
         \u{1d6c6}\u{1d6dc}\u{1d6e6}\u{1d700}\u{1d716}\u{1d720}\u{1d73a}\u{1d750}\u{1d75a}\u{1d774}\u{1d78a}\
         \u{1d794}\u{1d7ae}\u{1d7c4}\u{1df43}\u{1df44}\u{1df6d}\u{1df81}\u{1dfea}\u{1e035}\u{1e04b}\u{1e056}"),
    ('F', "ƑƒʄϜք\u{7d3}ᖴᵮᶠḞḟẝℱꓝꜰꞘꞙꟳꬵ\u{1017e}\u{10287}\u{102a5}\u{10525}\u{10798}\u{118a2}\u{118c2}\u{1ccdb}\
         \u{1d213}\u{1d7ca}"),
    ('G', "ĜĝĞğĠġĢģƍǤǥǦǧǴǵɠɡɢԌԍցᏀᏳᏻᴳᵍᶃᶢḠḡℊꓖꮐ\u{10792}\u{10793}\u{1ccdc}\u{1df30}\u{1df45}\u{1dfd4}"),
    ('H', "ĤĥĦħȞȟɦʜʰʱΉΗНнћҢңҺһӇӈӉӊհႹᎻᏂᏲᕼᴴᵸḢḣḤḥḦḧḨḩḪḫẖἨἩἪἫἬἭἮἯᾘᾙᾚᾛᾜᾝᾞᾟῊΉῌₕℋℌℍℎℏⱧⲎⲏꓧꚕꟸꮋ\u{102cf}\u{10795}\
         \u{10796}\u{1ccdd}\u{1d6ae}\u{1d6e8}\u{1d722}\u{1d75c}\u{1d796}\u{1df32}\u{1df46}\u{1df47}"),
    ('I', "ÌÍÎÏìíîïĨĩĪīĬĭĮįİǏǐȈȉȊȋᴵᵢḬḭḮḯỈỉỊịⁱℐℑℹⅈⅠⅰ\u{1ccde}"),
    ('J', "ĴĵǰȷɈɉɟʲͿϳЈјյ֌ᎫᒍᴊᴶᶡⅉⱼꓙꞲꭻ\u{1ccdf}\u{1d6a5}\u{1dfd9}\u{1e04d}"),
    ('K', "ĶķƙǨǩΚЌКҚҞᏦᛕᴷᵏḰḱḲḳḴḵₖ₭KⱩⲔꓗꝀ\u{10518}\u{1cce0}\u{1d6b1}\u{1d6eb}\u{1d725}\u{1d75f}\u{1d799}\u{1df48}\
         \u{1df49}\u{1dffb}"),
    ('L', "¡ıĹĺĻļĽľŁłƖƗƚɨɩɪɫɭʟˡΊΐΙΪίιϊІЇіїӀӏւ\u{5c0}\u{5d5}\u{5df}\u{622}\u{623}\u{625}\u{627}\u{661}\u{673}۱\
         \u{7ca}।၊ᎥᏞᒪᛁᛅᛐᴸᵻᵼᶤᶥᶦᶧᶩᶫḶḷḸḹḺḻḼḽἰἱἲἳἴἵἶἷἸἹἺἻἼἽἾἿὶίιῐῑῒΐῖῗῘῙῚΊₗℒℓⅬⅼ↿⍳⍸ⲒⲓⳐⳑⵊⵏꓡꓲꕯꙇꞁꞮꟾ꠰꣎꩝ꭞꭵꮮ\u{fb35}\
         \u{fb4b}\u{fd3c}\u{fd3d}\u{fe81}\u{fe82}\u{fe83}\u{fe84}\u{fe87}\u{fe88}\u{fe8d}\u{fe8e}\u{1028a}\
         \u{10309}\u{10320}\u{1041b}\u{10443}\u{1050e}\u{10526}\u{10926}\u{10c3e}\u{10ca5}\u{10cfa}\u{11047}\
         \u{110c0}\u{11141}\u{111c5}\u{113d4}\u{1144b}\u{115c5}\u{11641}\u{118a3}\u{118b2}\u{118c3}\u{11c41}\
         \u{11dda}\u{11de1}\u{16ae4}\u{16d63}\u{16eaa}\u{16f16}\u{16f28}\u{1cce1}\u{1d100}\u{1d22a}\u{1d377}\
         \u{1d6a4}\u{1d6b0}\u{1d6ca}\u{1d6ea}\u{1d704}\u{1d724}\u{1d73e}\u{1d75e}\u{1d778}\u{1d798}\u{1d7b2}\
         \u{1df6e}\u{1dfd5}\u{1dfd6}\u{1e04c}\u{1e050}\u{1e068}\u{1e141}\u{1e8c7}\u{1ed01}\u{1ee00}\u{1ee80}"),
    ('M', "ΜϺМӍᎷᗰᛖᴹᵐḾḿṀṁṂṃₘℳⅯⅿⲘꓟ\u{102b0}\u{10311}\u{10c21}\u{1cce2}\u{1d6b3}\u{1d6ed}\u{1d727}\u{1d761}\
         \u{1d79b}\u{1df4a}"),
    ('N', "ÑñŃńŅņŇňŋƝƞǸǹɲɳɴΝήηИПипղոռᴺᵑᵰᶮᶯᶰṄṅṆṇṈṉṊṋἠἡἢἣἤἥἦἧὴήᾐᾑᾒᾓᾔᾕᾖᾗῂῃῄῆῇⁿₙℕⲚⲛꓠ\u{1018e}\u{10513}\u{11abe}\
         \u{1cce3}\u{1d6b4}\u{1d6c8}\u{1d6ee}\u{1d702}\u{1d728}\u{1d73c}\u{1d762}\u{1d776}\u{1d79c}\u{1d7b0}\
         \u{1df4d}\u{1df4e}\u{1df4f}\u{1dfdc}"),
    ('O', "ºÒÓÔÕÖØòóôõöøŌōŎŏŐőƟƠơǑǒǪǫǬǭǾǿȌȍȎȏȪȫȬȭȮȯȰȱɵΌΘΟθοσόϑϭϴОоѲѳӦӧӨөӪӫՕօ\u{5e1}\u{629}\u{647}\u{665}\u{6be}\
         \u{6c0}\u{6c1}\u{6c2}\u{6c3}\u{6d5}۵\u{6ff}\u{7c0}\u{7cb}\u{840}०০੦૦ଠ୦௦\u{c02}౦\u{c82}೦\u{d02}ഠ൦\
         \u{d82}๐໐တဝ၀თჿᄋᆼዐፀᎤᎾᏫ០ᨲᩅ᪀᪐\u{1bea}ᲂᲿᴏᴑᴼᵒᶱᶿṌṍṎṏṐṑṒṓỌọỎỏỐốỒồỔổỖỗỘộỚớỜờỞởỠỡỢợὀὁὂὃὄὅὈὉὊὋὌὍὸόῸΌₒℴ∅⊖⊝⌀⍥⍬Ⲑⲑ\
         Ⲟⲟⴱⵁⵔ〇ㅇ㉧ꓳꚢꝊꝋꬽꬾꭴꮎꮻ\u{fb41}\u{fba4}\u{fba5}\u{fba6}\u{fba7}\u{fba8}\u{fba9}\u{fbaa}\u{fbab}\u{fbac}\
         \u{fbad}\u{fcd9}\u{fe93}\u{fe94}\u{fee9}\u{feea}\u{feeb}\u{feec}ﾷ\u{10292}\u{102ab}\u{1030f}\
         \u{10404}\u{1042c}\u{104c2}\u{104ea}\u{10516}\u{1051e}\u{107a2}\u{1092c}\u{10c17}\u{10d07}\u{11116}\
         \u{11124}\u{11302}\u{114d0}\u{118b5}\u{118c8}\u{118d7}\u{118e0}\u{11de0}\u{1699b}\u{16ae9}\u{16e80}\
         \u{1cce4}\u{1d21a}\u{1d6af}\u{1d6b6}\u{1d6b9}\u{1d6c9}\u{1d6d0}\u{1d6d4}\u{1d6dd}\u{1d6e9}\u{1d6f0}\
         \u{1d6f3}\u{1d703}\u{1d70a}\u{1d70e}\u{1d717}\u{1d723}\u{1d72a}\u{1d72d}\u{1d73d}\u{1d744}\u{1d748}\
         \u{1d751}\u{1d75d}\u{1d764}\u{1d767}\u{1d777}\u{1d77e}\u{1d782}\u{1d78b}\u{1d797}\u{1d79e}\u{1d7a1}\
         \u{1d7b1}\u{1d7b8}\u{1d7bc}\u{1d7c5}\u{1df3c}\u{1e03c}\u{1e04e}\u{1e05c}\u{1e140}\u{1e2f0}\u{1ee24}\
         \u{1ee64}\u{1ee84}\u{1f714}"),
    ('P', "þƥƿΡρϱϸРрᏢᑭᴘᴩᴾᵖᵨᵽṔṕṖṗῤῥῬₚℙ⍴ⲢⲣⳎⳏꓑꮲ\u{10295}\u{1cce5}\u{1d6b8}\u{1d6d2}\u{1d6e0}\u{1d6f2}\u{1d70c}\
         \u{1d71a}\u{1d72c}\u{1d746}\u{1d754}\u{1d766}\u{1d780}\u{1d78e}\u{1d7a0}\u{1d7ba}\u{1d7c8}\u{1dfd1}\
         \u{1dffc}\u{1e03e}"),
    ('Q', "ʠԚԛգզℚⵕꞯꟴ\u{107a5}\u{1cce6}\u{1df34}\u{1dffd}"),
    ('R', "ŔŕŖŗŘřƦȐȑȒȓɌɍɼɽʀʳЯгяѓғᎡᏒᖇᴦᴿᵣᵲṘṙṚṛṜṝṞṟℛℜℝⲅꓣꭇꭈꭱꮁꮢ\u{104b4}\u{107a8}\u{107aa}\u{16a19}\u{16f35}\
         \u{1cce7}\u{1d216}\u{1df35}\u{1df37}\u{1dfdd}\u{1e033}\u{1e054}\u{1f12c}"),
    ('S', "ŚśŜŝŞşŠšƽȘșʂˢЅѕՏടႽჽᏕᏚᲽᵴᶳṠṡṢṣṤṥṦṧṨṩₛꓢꕶꜱꟅ꟱ꮪ\u{10296}\u{10420}\u{10448}\u{118c1}\u{16ad6}\u{16f3a}\
         \u{1cce8}\u{1e069}"),
    ('T', "ŢţŤťŦŧƫƭƮȚțȾΤτТтҬҭ\u{7e0}ᎢᎿᴛᵀᵗᵵᶵṪṫṬṭṮṯṰṱẗₜ₮⊤⍡⟙Ⲧⲧㄒ丅ꓔꔋꚌꚍꭲ\u{10297}\u{102b1}\u{10315}\u{118bc}\u{16f0a}\
         \u{1cce9}\u{1d373}\u{1d6bb}\u{1d6d5}\u{1d6f5}\u{1d70f}\u{1d72f}\u{1d749}\u{1d769}\u{1d783}\u{1d7a3}\
         \u{1d7bd}\u{1dffe}\u{1e040}\u{1f768}"),
    ('U', "ÙÚÛÜùúûüŨũŪūŬŭŮůŰűŲųƯưǓǔǕǖǗǘǙǚǛǜȔȕȖȗɄʋΰυϋύџՍսሀᏌᑌᴜᵁᵘᵤᵾᶸᶹṲṳṴṵṶṷṸṹṺṻỤụỦủỨứỪừỬửỮữỰựὐὑὒὓὔὕὖὗὺύῠῡῢΰῦῧ∪⋃ꓴꞟꭎ\
         ꭒꭟꮜ\u{104ce}\u{104f6}\u{118b8}\u{118d8}\u{16f42}\u{1ccea}\u{1d6d6}\u{1d710}\u{1d74a}\u{1d784}\
         \u{1d7be}\u{1df39}\u{1e06a}"),
    ('V', "νѴѵѶѷ\u{5d8}\u{667}۷ᏙᐯᴠᵛᵥṼṽṾṿⅤⅴ∨⋁ⱽⴸꓦꛟꮩ\u{fb38}\u{10197}\u{1051d}\u{10c1f}\u{11706}\u{118a0}\u{118c0}\
         \u{16f08}\u{1cceb}\u{1cefc}\u{1d20d}\u{1d6ce}\u{1d708}\u{1d742}\u{1d77c}\u{1d7b6}\u{1df51}\u{1df52}\
         \u{1e145}\u{1f708}"),
    ('W', "ŴŵɯʷшѡѽԜԝաᎳᏔᴡᵂᵚẀẁẂẃẄẅẆẇẈẉẘ₝₩⧢ⲽꓪꝡꟺꮃꮤ￦\u{114c5}\u{1170a}\u{1170e}\u{1170f}\u{118e6}\u{118ef}\u{1ccec}\
         \u{1d20c}\u{1df3f}\u{1df7d}\u{1dfdb}\u{1e046}\u{1e064}"),
    ('X', "×ˣΧХхҲᕁᕽ᙭᙮ᚷᝣ\u{1bec}ᳵẊẋẌẍₓⅩⅹ╳⤫⤬⨯⨰ⲬⵝꓫꞳ\u{10196}\u{10290}\u{102b4}\u{10317}\u{10322}\u{10527}\u{10c13}\
         \u{10c82}\u{10cc2}\u{10cfc}\u{118ec}\u{1cced}\u{1d6be}\u{1d6f8}\u{1d732}\u{1d76c}\u{1d7a6}\u{1e043}\
         \u{1e061}"),
    ('Y', "¥ÝýÿŶŷŸƴȲȳɎɏɣʏʸˠΎΥΫγϒϓϔЎУуўҮүҰұӮӯӰӱӲӳ\u{7cc}ყᎩᎽᵞᵧᶌẎẏẙỲỳỴỵỶỷỸỹỿὙὛὝὟῨῩῪΎ₞ℽⲨⲩㄚ丫ꓬꚲꭚ￥\u{102b2}\u{107b2}\
         \u{10c20}\u{118a4}\u{118c4}\u{118dc}\u{16f43}\u{1ccee}\u{1d6bc}\u{1d6c4}\u{1d6f6}\u{1d6fe}\u{1d730}\
         \u{1d738}\u{1d76a}\u{1d772}\u{1d7a4}\u{1d7ac}\u{1df31}\u{1df55}\u{1dfd0}\u{1e041}\u{1e04f}\u{1e05f}\
         \u{1e06d}"),
    ('Z', "ŹźŻżŽžƵƶȤȥʐΖჍᏃᴢᵶᶻᶼẐẑẒẓẔẕ₟ℤℨⱫⱬⲌⲍⴭꓜꛉꮓ\u{102f5}\u{10507}\u{118a9}\u{118e5}\u{11abc}\u{1ccef}\u{1d6ad}\
         \u{1d6e7}\u{1d721}\u{1d75b}\u{1d795}"),
    ('[', "⁅❲⟦⦋⦍⦏【〔〖﹇［"),
    (']', "⁆❳⟧⦌⦎⦐】〕〗﹈］"),
    ('|', "ǀ∣⎸⎹⏽│┃❘❙❚︱￨∤"),
];

/// Alphabets in ASCII order: mathematical, in circles, brackets and squares, and regional indicators.
const STYLES: [(char, char); 8] = [
    ('\u{249c}', '\u{24b5}'),
    ('\u{24b6}', '\u{24e9}'),
    ('\u{1d400}', '\u{1d6a3}'),
    ('\u{1f110}', '\u{1f129}'),
    ('\u{1f130}', '\u{1f149}'),
    ('\u{1f150}', '\u{1f169}'),
    ('\u{1f170}', '\u{1f189}'),
    ('\u{1f1e6}', '\u{1f1ff}'),
];

/// Characters that look like several ASCII characters.
const AMBIGUOUS: [(char, &str); 8] = [
    ('≪', "<<"),
    ('⋘', "<<<"),
    ('≫', ">>"),
    ('⋙', ">>>"),
    ('ﬅ', "ST"),
    ('ﬆ', "ST"),
    ('№', "NO"),
    ('℡', "TEL"),
];

/// [`LOOKALIKES`] by character.
static BY_CHARACTER: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let all = LOOKALIKES.iter();
    let mut all: Vec<_> = all
        .flat_map(|(ascii, others)| others.chars().map(|other| (other, *ascii)))
        .collect();
    all.sort_unstable();
    all
});

/// Returns whether a character is invisible (Unicode's `Default_Ignorable_Code_Point`).
pub fn is_ignorable(c: char) -> bool {
    !c.is_ascii() && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// A character that a reader may see, and its byte range in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyph {
    /// The character that it resembles: an ASCII capital, or else the character itself.
    pub c: char,
    /// Its start in the text.
    pub from: usize,
    /// Its end in the text.
    pub to: usize,
}

/// Returns the characters that a reader may see in a text, without combining marks and invisible characters.
pub fn glyphs(text: &str) -> Vec<Glyph> {
    let mut all = Vec::with_capacity(text.len());
    for (from, c) in text.char_indices() {
        let to = from + c.len_utf8();
        let mut push = |c| all.push(Glyph { c, from, to });
        if c.is_ascii() {
            push(c.to_ascii_uppercase());
        } else if let Some((_, several)) = AMBIGUOUS.iter().find(|(known, _)| *known == c) {
            several.chars().for_each(push);
        } else if let Some(ascii) = lookalike(c) {
            push(ascii);
        } else if !is_ignorable(c) && !is_mark(c) {
            push(c);
        }
    }
    all
}

fn is_mark(c: char) -> bool {
    GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(c))
}

fn lookalike(c: char) -> Option<char> {
    let nth = |first: char, of: u32, among: char| {
        char::from_u32(u32::from(among) + (u32::from(c) - u32::from(first)) % of)
    };
    if let Some((first, _)) = STYLES
        .iter()
        .find(|(first, last)| (*first..=*last).contains(&c))
    {
        return nth(*first, 26, 'A');
    }
    match c {
        '\u{1ccf0}'..='\u{1ccf9}' => nth('\u{1ccf0}', 10, '0'),
        '\u{1d7ce}'..='\u{1d7ff}' => nth('\u{1d7ce}', 10, '0'),
        '\u{1fbf0}'..='\u{1fbf9}' => nth('\u{1fbf0}', 10, '0'),
        // Full width.
        '\u{ff01}'..='\u{ff5e}' => nth('\u{ff01}', 94, '!').map(|c| c.to_ascii_uppercase()),
        _ => {
            let at = BY_CHARACTER.binary_search_by_key(&c, |(other, _)| *other);
            at.ok().map(|at| BY_CHARACTER[at].1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        glyphs(text).iter().map(|glyph| glyph.c).collect()
    }

    #[test]
    fn reads_lookalikes_as_ascii() {
        for text in [
            "Ехternal",
            "𝓔𝔁𝓽𝓮𝓻𝓷𝓪𝓵",
            "ＥＸＴＥＲＮＡＬ",
            "ᴇxᴛᴇʀɴᴀʟ",
            "É̲xt\u{3164}ⓔrnal",
            "🅴🆇🆃🅴🆁🅽🅰🅻",
        ] {
            assert_eq!(read(text), "EXTERNAL", "{text}");
        }
        assert_eq!(read("⋘《｜▁日ﬆ"), "<<<<|▁日ST");
    }

    #[test]
    fn glyphs_have_their_positions() {
        let all = glyphs("é≪");
        let places: Vec<_> = all
            .iter()
            .map(|glyph| (glyph.c, glyph.from, glyph.to))
            .collect();
        assert_eq!(places, [('E', 0, 2), ('<', 2, 5), ('<', 2, 5)]);
    }

    #[test]
    fn ignorables_are_those_of_unicode() {
        for c in "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200d}\u{2065}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{1d173}\u{e0041}\u{e01ef}".chars() {
            assert!(is_ignorable(c), "{c:?}");
        }
        assert!(!"a \n日\u{301}😀".contains(is_ignorable));
    }

    #[test]
    fn maps_every_confusable_letter_of_unicode() {
        // Unicode maps them to `f`, and decomposes them to `s`.
        const UNDECIDED: &str = "ſẛ";
        // Bars do not count as letters.
        const BARS: &str = "∤⏽│┃︱￨∣ǀ❘⎸⎹";
        let alike = |c: char| match c {
            'I' | '1' | '|' => 'L',
            '0' => 'O',
            c => c,
        };
        let all = ('\u{80}'..=char::MAX).filter(|c| !UNDECIDED.contains(*c) && !BARS.contains(*c));
        let missing: Vec<_> = all
            .filter(|c| {
                let text = c.to_string();
                let to = unicode_security::confusable_detection::skeleton(&text);
                let to: String = to.filter(|c| !is_mark(*c)).collect();
                let letter = to.len() == 1 && to.as_bytes()[0].is_ascii_alphabetic();
                let alike = |text: &str| text.chars().map(alike).collect::<String>();
                letter && alike(&to.to_ascii_uppercase()) != alike(&read(&text))
            })
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
